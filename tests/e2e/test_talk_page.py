"""A server's page in a real browser: asked by voice and by hand, heard, and watched."""

import base64
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.golden import ROOT
from tests.support.omni_media import write_media
from tests.support.serving import Server

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
RATE = 24_000
# Whatever goes to the loudspeaker also goes to `heard`, sample by sample.
TAP = """
window.heard = [];
const Real = window.AudioContext;
window.AudioContext = class extends Real {
  constructor(options) {
    super({ ...options, sampleRate: 24000 });
    this.tap = this.createGain();
    this.tap.connect(super.destination);
    this.audioWorklet.addModule("/page/recorder-worklet.js").then(() => {
      const node = new AudioWorkletNode(this, "recorder", { numberOfOutputs: 0 });
      node.port.onmessage = ({ data }) => { for (const each of data) window.heard.push(each); };
      this.tap.connect(node);
    });
  }
  get destination() { return this.tap ?? super.destination; }
};
// The browser forgets the bodies of streams, so what is answered is noted as it comes.
window.said = "";
const fetched = window.fetch.bind(window);
window.fetch = async (...asked) => {
  const answer = await fetched(...asked);
  if (!answer.url.endsWith("/generate") || !answer.body) return answer;
  const [theirs, ours] = answer.body.tee();
  const note = async () => {
    const reader = ours.pipeThrough(new TextDecoderStream()).getReader();
    for (let read; !(read = await reader.read()).done;) window.said += read.value;
  };
  note().catch(() => {});
  const { status, statusText, headers } = answer;
  return new Response(theirs, { status, statusText, headers });
};
"""
# Which steps have lit up, and which tokens stood at one.
WATCH = """() => {
  window.lit = new Set();
  window.tokens = new Set();
  const root = document.getElementById("graph").shadowRoot;
  new MutationObserver(() => {
    for (const box of root.querySelectorAll(".call.ran")) lit.add(box.dataset.step);
    for (const mark of root.querySelectorAll(".token.yours")) tokens.add(mark.textContent);
  }).observe(root, { subtree: true, childList: true, attributes: true });
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("there is no Chromium on this machine")
    spoken = ROOT / "examples" / "question.wav"
    arguments = [
        *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
        *("--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"),
        f"--use-file-for-fake-audio-capture={spoken}",
    ]
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=arguments)
        yield started
        started.close()


class Page:
    """The page of a server, open; `problems` has what went wrong in it."""

    def __init__(self, browser: Any, server: Server) -> None:
        context = browser.new_context(
            viewport={"width": 1500, "height": 1000}, permissions=["microphone"]
        )
        self.problems: list[str] = []
        self.answers: list[Any] = []
        self.tab = context.new_page()
        self.tab.add_init_script(TAP)
        self.tab.on("pageerror", lambda error: self.problems.append(str(error)))
        self.tab.on("console", self._said)
        self.tab.on("request", lambda request: self._asked(request.url, server.address))
        self.tab.on("response", self._answered)
        self.tab.goto(server.address)
        self.tab.wait_for_selector("#state.ready", timeout=20_000)

    def _said(self, message: Any) -> None:
        if message.type == "error" and "status of 4" not in message.text:
            self.problems.append(message.text)

    def _asked(self, url: str, address: str) -> None:
        if not url.startswith((address, "blob:", "data:")):
            self.problems.append(url)

    def _answered(self, response: Any) -> None:
        if response.url.endswith("/generate"):
            self.answers.append(response)

    def until_answered(self) -> None:
        self.tab.wait_for_selector(".answered:not([aria-busy])", timeout=60_000)
        self.tab.wait_for_selector("#send:not([hidden])")


@pytest.fixture
def talking(browser: Any, hello: Server) -> Iterator[Page]:
    page = Page(browser, hello)
    yield page
    page.tab.context.close()
    assert page.problems == []


def test_a_question_is_recorded_and_its_answer_is_heard(browser: Any, hearing: Server) -> None:
    page = Page(browser, hearing)
    tab = page.tab
    tab.evaluate(WATCH)
    tab.click("#options summary")
    tab.fill("#option-max_tokens", "12")
    tab.click(".record")
    tab.wait_for_selector(".record[aria-pressed=true]")
    until(tab, "document.querySelector('.record').textContent > 'Stop, 0.6'")
    tab.click(".record")  # what is recorded is sent: nothing else is needed
    page.until_answered()
    (answer,) = page.answers
    sent = json.loads(answer.request.post_data)["inputs"]["question"]
    assert len(base64.b64decode(sent)) > 0.5 * 2 * RATE
    until(tab, "said.includes('[DONE]')")
    made = samples_of(tab.evaluate("said"), "speech")
    assert made.size > 0
    until(tab, f"heard.filter((sample) => sample !== 0).length >= {made.size // 2}")
    until(tab, "document.querySelector('.sound button').textContent === 'Play'")
    heard = np.array(tab.evaluate("heard"), np.float32)
    assert is_heard(made, heard)
    # It is there for those who can't hear it, and can be heard again.
    assert tab.locator(".asked .text").inner_text()
    assert tab.locator(".answered .text").inner_text()
    assert "of sound" in (tab.get_attribute("canvas.wave", "aria-label") or "")
    # The graph has shown where the question went, from rank to rank.
    until(tab, "lit.has('say.listen.speak')")
    lit = set(tab.evaluate("[...lit]"))
    assert {"talk.listen.mel", "talk.listen.hear_question.encode", "talk.reply.answer.pass"} <= lit
    tab.context.close()
    assert page.problems == []


def until(tab: Any, holds: str) -> None:
    """Waits for an expression to hold. (The page's policy forbids the library's own way.)"""
    deadline = time.monotonic() + 60
    while not tab.evaluate(holds):
        assert time.monotonic() < deadline, holds
        tab.wait_for_timeout(50)


def samples_of(events: str, output: str) -> Any:
    """The samples of an output in an answer's events."""
    found = []
    for line in events.splitlines():
        if not line.startswith("data: {"):
            continue
        event = json.loads(line.removeprefix("data: "))
        if event.get("output") == output:
            found.append(np.frombuffer(base64.b64decode(event["audio"]), "<i2"))
    return np.concatenate(found).astype(np.float32) / 32767


def is_heard(made: Any, heard: Any) -> bool:
    """Whether a sound is in what was heard, in order; where it waited for more there is silence."""
    loud = np.abs(made) > 0.01
    wanted = made[loud]
    if not wanted.size:
        return False
    there = heard[np.abs(heard) > 0.01]
    return there.size == wanted.size and bool(np.abs(there - wanted).max() < 2e-3)


def test_a_text_is_answered_as_it_comes_and_tokens_walk_the_graph(talking: Page) -> None:
    tab = talking.tab
    tab.evaluate(WATCH)
    tab.click("#options summary")
    tab.fill("#option-max_tokens", "300")
    assert tab.inner_text("#changed") == "(1 changed)"
    tab.fill("#input-prompt", "hello")
    tab.press("#input-prompt", "Enter")
    tab.wait_for_selector(".answered[aria-busy] .text")
    until(tab, "tokens.size === 1")
    assert tab.locator("#requests .token.yours").count() == 1
    assert "speak.write" in tab.inner_text("#requests")
    talking.until_answered()
    assert len(tab.inner_text(".answered .text")) > 250
    assert {"speak.begin.read", "speak.write.pass", "voice.listen.sing"} <= set(
        tab.evaluate("[...lit]")
    )
    assert "No. " in tab.inner_text(".answered .meta >> nth=-1")
    assert "Answer: " in tab.inner_text("#said")


def test_who_stops_an_answer_frees_its_slot(talking: Page, hello: Server) -> None:
    tab = talking.tab
    tab.click("#options summary")
    tab.fill("#option-max_tokens", "400")
    tab.fill("#input-prompt", "hello")
    tab.click("#send")
    tab.wait_for_selector(".answered[aria-busy] .text")
    tab.click("#stop")
    talking.until_answered()
    assert hello.held()["conductor"]["requests"] == 0


def test_a_refusal_says_what_is_wrong(talking: Page) -> None:
    tab = talking.tab
    tab.click("#send")
    assert "Still needed: prompt" in tab.inner_text("#problem")
    assert tab.evaluate("document.activeElement.id") == "input-prompt"
    tab.click("#options summary")
    tab.fill("#option-max_tokens", "9999")
    tab.fill("#input-prompt", "hello")
    tab.evaluate("document.getElementById('composer').noValidate = true")
    tab.click("#send")
    tab.wait_for_selector(".answered.failed [role=alert]")
    assert "MS9213" in tab.inner_text(".answered.failed")


def test_a_keyboard_reaches_all_and_each_control_has_a_name(talking: Page) -> None:
    tab = talking.tab
    reached = []
    for _ in range(12):
        tab.keyboard.press("Tab")
        reached.append(tab.evaluate("document.activeElement.id || document.activeElement.tagName"))
    order = [name for name in reached if name in ("theme", "log", "input-prompt", "send", "graph")]
    assert order == ["theme", "log", "input-prompt", "send", "graph"]
    unnamed = tab.evaluate(
        """[...document.querySelectorAll("button, input, select, textarea")].filter((each) =>
          each.checkVisibility() && each.getAttribute("aria-hidden") !== "true" &&
          !(each.getAttribute("aria-label") || each.labels?.length || each.textContent.trim())
        ).map((each) => each.outerHTML)"""
    )
    assert unnamed == []
    assert tab.get_attribute("#said", "aria-live") == "polite"
    assert tab.get_attribute("#log", "role") == "log"


def test_light_and_dark_change_page_and_drawing(talking: Page) -> None:
    tab = talking.tab
    ground = "getComputedStyle(document.body).color"
    box = """getComputedStyle(document.getElementById("graph").shadowRoot
      .querySelector(".call.kv_cache")).fill"""
    before = tab.evaluate(ground), tab.evaluate(box)
    tab.click("#theme")
    until(tab, f"{box} !== '{before[1]}'")
    assert tab.evaluate(ground) != before[0]


def test_a_server_with_keys_is_given_one(browser: Any, hello: Server) -> None:
    context = browser.new_context()
    tab = context.new_page()
    seen: list[str | None] = []

    def models(route: Any) -> None:
        seen.append(route.request.headers.get("authorization"))
        if seen[-1] == "Bearer right":
            route.continue_()
            return
        refused = {"error": {"message": "a key is needed", "code": "MS9221"}}
        route.fulfill(status=401, body=json.dumps(refused), content_type="application/json")

    tab.route("**/v1/models", models)
    tab.goto(hello.address)
    tab.wait_for_selector("#key-dialog[open]")
    assert "a key is needed" in tab.inner_text("#key-dialog")
    tab.fill("#key", "right")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#state.ready")
    assert seen == [None, "Bearer right"]
    context.close()


def test_without_a_drawing_of_its_placement_tables_say_what_runs(
    browser: Any, hello: Server
) -> None:
    context = browser.new_context()
    tab = context.new_page()
    other = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><style>a {}</style></svg>'
    tab.route("**/graph.svg", lambda route: route.fulfill(body=other, content_type="image/svg+xml"))
    tab.goto(hello.address)
    tab.wait_for_selector("#state.ready")
    tab.wait_for_selector(".rank:nth-of-type(2) .pill.ready")
    assert not tab.is_visible("#graph")
    assert "none now" in tab.inner_text("#requests")
    context.close()


def test_the_page_is_its_own_files_and_nothing_else(hello: Server) -> None:
    answer = hello.http.get("/")
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    tag = answer.headers["etag"]
    assert hello.http.get("/", headers={"if-none-match": tag}).status_code == 304
    assert "unsafe" not in answer.headers["content-security-policy"]
    for path in ("/page/..%2Fpage.py", "/page/%2Fetc%2Fpasswd", "/page/plan.json"):
        assert hello.http.get(path).status_code == 404
    assert "data-step" in hello.http.get("/page/graph.svg").text


DROP = """([bytes, name, kind]) => {
  const files = new DataTransfer();
  files.items.add(new File([new Uint8Array(bytes)], name, { type: kind }));
  const zone = document.querySelector(".drop");
  for (const type of ["dragover", "drop"]) {
    zone.dispatchEvent(new DragEvent(type, { dataTransfer: files, cancelable: true }));
  }
}"""


def test_a_picture_is_dropped_and_turns_are_remembered(
    browser: Any, seeing: Server, tmp_path: Path
) -> None:
    write_media(tmp_path)
    page = Page(browser, seeing)
    tab = page.tab
    tab.click("#options summary")
    tab.fill("#option-max_tokens", "6")
    tab.fill("#option-talker_max_tokens", "8")
    tab.uncheck("#wants input[value=speech]")
    content = [*(tmp_path / "wide.png").read_bytes()]
    tab.evaluate(DROP, [content, "notes.txt", "text/plain"])
    assert tab.locator(".attached img").count() == 0
    assert "notes.txt is not" in tab.inner_text("#said")
    tab.evaluate(DROP, [content, "wide.png", "image/png"])
    assert tab.get_attribute(".attached img", "alt") == "wide.png"
    tab.fill("#inputs textarea", "What is this?")
    tab.press("#inputs textarea", "Enter")
    page.until_answered()
    reply = tab.inner_text(".answered .text")
    tab.fill("#inputs textarea", "And now?")
    tab.click("#send")
    tab.wait_for_selector(".turn:nth-of-type(2) .answered:not([aria-busy])")
    tab.wait_for_selector("#send:not([hidden])")
    asked = [json.loads(answer.request.post_data) for answer in page.answers]
    first, second = (each["inputs"]["parts"] for each in asked)
    assert [set(part) - {"role"} for part in first] == [{"image"}, {"text"}]
    assert asked[0]["wants"] == ["reply"]
    turns = [(part["role"], part.get("text")) for part in second]
    assert turns == [
        ("user", None),
        ("user", "What is this?"),
        ("assistant", reply),
        ("user", "And now?"),
    ]
    tab.click("#forget")
    assert tab.locator(".turn").count() == 0
    tab.context.close()
    assert page.problems == []

"""Pictures from a server as a real process: drawn of texts and of pictures, several, streamed."""

import base64
import io
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image

from tests.support.bombs import large_gif, wall
from tests.support.golden import ROOT
from tests.support.serving import Server, compiled, error, serving

openai = pytest.importorskip("openai")

FEW = {"steps": 3, "seed": 3}

# What BAGEL needs to show a drawing before it is finished: where it would come to if it went
# straight on, every so many updates.
PREVIEWS = (
    ("  out picture : image optional\n", "  out preview : image optional\n"),
    ("  opt seed               : int   = 0\n", "  opt partial_images : int = 0 in 0 .. 3\n"),
    ("need wants reply or wants picture\n", "need wants picture or not wants preview\n"),
    (
        "let cells    = (height // cell) * columns\n",
        "let every    = (steps + partial_images - 1) // (partial_images + 1)\n",
    ),
    (
        "      v = llm.denoise(x, t[i], columns) on main\n    }\n",
        "    when wants preview and i % every == every - 1 and i < steps - 2 {\n"
        "      guess = guide.follow(x, v, t[i], t[steps - 1])\n"
        "      seen  = vae_decoder.decode(guess, height, width)\n"
        "      emit preview <- seen\n"
        "    }\n",
    ),
)


def client(server: Server) -> Any:
    return openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0).images


def opened(b64: str) -> Any:
    return Image.open(io.BytesIO(base64.b64decode(b64)))


def test_pictures_are_the_same_whole_and_streamed(drawing: Server) -> None:
    asked = {"model": "bagel", "prompt": "a cat", "n": 2, "size": "64x96", "extra_body": FEW}
    whole = client(drawing).generate(**asked)
    assert (whole.size, whole.output_format) == ("64x96", "png")
    pictures = [one.b64_json for one in whole.data]
    assert [opened(one).size for one in pictures] == [(64, 96), (64, 96)]
    # Each has a seed of its own, and the first has the one that was given.
    assert pictures[0] != pictures[1]
    (alone,) = client(drawing).generate(**{**asked, "n": 1}).data
    assert alone.b64_json == pictures[0]
    events = list(client(drawing).generate(**asked, stream=True))
    assert {event.type for event in events} == {"image_generation.completed"}
    assert sorted(event.b64_json for event in events) == sorted(pictures)


@pytest.fixture(scope="module")
def previewing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """BAGEL as it is, but for its previews."""
    folder = tmp_path_factory.mktemp("previews")
    spec = (ROOT / "specs/bagel.mstar").read_text()
    for line, more in PREVIEWS:
        assert line in spec
        spec = spec.replace(line, line + more)
    (folder / "bagel.mstar").write_text(spec)
    plan = compiled(folder, str(folder / "bagel.mstar"), "specs/tiny/bagel.yaml", "cpu")
    with serving(plan, "--one-process") as server:
        yield server


def test_pictures_are_shown_before_they_are_finished(previewing: Server) -> None:
    before = previewing.held()
    asked = {"model": "bagel", "prompt": "a cat", "size": "64x96"}
    body = {"steps": 9, "seed": 3}
    (alone,) = client(previewing).generate(**asked, extra_body=body).data
    events = list(
        client(previewing).generate(**asked, extra_body=body, stream=True, partial_images=3, n=2)
    )
    partial = [event for event in events if event.type == "image_generation.partial_image"]
    assert sorted(event.partial_image_index for event in partial) == [0, 0, 1, 1, 2, 2]
    assert len({event.b64_json for event in partial}) == 6
    assert {opened(event.b64_json).size for event in partial} == {(64, 96)}
    finished = [event for event in events if event.type == "image_generation.completed"]
    assert len(finished) == 2
    # Whoever looks on changes nothing.
    assert alone.b64_json in [event.b64_json for event in finished]
    kinds = [event.type for event in client(previewing).generate(**asked, stream=True)]
    assert kinds == ["image_generation.completed"]
    refused = previewing.post("/v1/images/generations", prompt="a cat", partial_images=1)
    assert (refused.status_code, error(refused)["code"]) == (400, "MS9217")
    assert "for streams" in error(refused)["message"]
    assert previewing.held() == before


def test_pictures_are_changed_as_a_text_says(drawing: Server) -> None:
    before = drawing.held()
    buffer = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(buffer, "PNG")
    file = ("red.png", buffer.getvalue())
    asked = {"model": "bagel", "prompt": "bluer", "size": "64x64", "extra_body": FEW}
    made = client(drawing).edit(**asked, image=file, output_format="webp")
    assert opened(made.data[0].b64_json).format == "WEBP"
    (event,) = client(drawing).edit(**asked, image=[file, file], stream=True)
    assert (event.type, event.size) == ("image_edit.completed", "64x64")
    assert drawing.held() == before


@pytest.mark.parametrize(
    ("content", "status", "code", "said"),
    [
        ({}, 400, "MS9217", "no `prompt`"),
        ({"prompt": "a", "size": "big"}, 400, "MS9217", "`512x512` or `auto`"),
        ({"prompt": "a", "size": "65x64"}, 400, "MS9213", "width % cell == 0"),
        ({"prompt": "a", "size": "9999x64"}, 400, "MS9213", "64 .. 1024"),
        ({"prompt": "a", "n": 11}, 400, "MS9217", "1 .. 10"),
        ({"prompt": "a", "partial_images": 2}, 400, "MS9217", "finished pictures"),
        ({"prompt": "a", "response_format": "url"}, 400, "MS9217", "`b64_json`"),
        ({"prompt": "a", "stepz": 3}, 400, "MS9217", "did you mean `steps`"),
    ],
)
def test_what_can_not_be_drawn_is_said(
    drawing: Server, content: dict[str, Any], status: int, code: str, said: str
) -> None:
    refused = drawing.post("/v1/images/generations", **content)
    assert (refused.status_code, error(refused)["code"]) == (status, code)
    assert said in error(refused)["message"]


def test_an_edit_needs_a_picture_that_is_one(drawing: Server) -> None:
    def edited(**sent: Any) -> tuple[int, str]:
        refused = drawing.http.post("/v1/images/edits", data={"prompt": "bluer"}, **sent)
        return refused.status_code, error(refused)["code"]

    assert edited() == (400, "MS9217")
    assert edited(files={"image": b"no picture"}) == (400, "MS9206")
    assert edited(files={"mask": b"no picture"}) == (400, "MS9217")


def test_a_picture_that_unpacks_to_very_much_is_refused(drawing: Server) -> None:
    before = drawing.held()
    for bomb in (wall(30_000, 30_000), large_gif()):
        asked = {"prompt": "bluer", "size": "64x64"}
        refused = drawing.http.post("/v1/images/edits", data=asked, files={"image": bomb})
        assert (refused.status_code, error(refused)["code"]) == (413, "MS9219")
    assert drawing.held() == before


def test_a_model_without_pictures_says_so(hello: Server) -> None:
    for route in ("/v1/images/generations", "/v1/images/edits"):
        refused = hello.post(route, prompt="a cat")
        assert (refused.status_code, error(refused)["code"]) == (404, "MS9218")

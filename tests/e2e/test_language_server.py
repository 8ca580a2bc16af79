"""The language server as an editor sees it: a real process, spoken to over stdin and stdout."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.golden import ROOT
from tests.support.lsp_client import LspClient, LspError, place_of

pytest.importorskip("pygls", reason="the language server needs pygls")

ORPHEUS = (ROOT / "specs/orpheus.mstar").read_text(encoding="utf-8")
WHOLE = {"start": {"line": 0, "character": 0}, "end": {"line": 999, "character": 0}}
URI = "file:///work/orpheus.mstar"


@pytest.fixture(scope="module")
def client() -> Iterator[LspClient]:
    with LspClient() as started:
        yield started


@pytest.fixture
def opened(client: LspClient) -> Iterator[LspClient]:
    client.open(URI, ORPHEUS)
    assert client.diagnostics(URI, 1) == []
    yield client
    client.tell("textDocument/didClose", {"textDocument": {"uri": URI}})


def applied(text: str, edits: list[dict[str, Any]]) -> str:
    """A text with edits of the protocol. Lines of ASCII only."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def offset(place: dict[str, int]) -> int:
        return min(len(text), starts[min(place["line"], len(starts) - 1)] + place["character"])

    for edit in sorted(edits, key=lambda e: offset(e["range"]["start"]), reverse=True):
        start, end = offset(edit["range"]["start"]), offset(edit["range"]["end"])
        text = text[:start] + edit["newText"] + text[end:]
    return text


def test_what_the_server_offers(client: LspClient) -> None:
    offered = client.capabilities
    for name in (
        "hoverProvider",
        "definitionProvider",
        "referencesProvider",
        "renameProvider",
        "completionProvider",
        "documentSymbolProvider",
        "documentFormattingProvider",
        "codeActionProvider",
        "inlayHintProvider",
    ):
        assert offered.get(name), name
    assert offered["positionEncoding"] == "utf-16"


def test_a_mistake_while_typing_and_its_repair(opened: LspClient) -> None:
    place = place_of(ORPHEUS, "eos {")
    version = opened.change(URI, place, (place[0], place[1] + 3), "eoz")
    (found,) = opened.diagnostics(URI, version)
    assert found["code"] == "MS0207"
    assert found["source"] == "mstarc"
    assert found["message"].startswith("there is no value `eoz`")
    assert "help: did you mean `eos`?" in found["message"]
    assert found["range"]["start"] == {"line": place[0], "character": place[1]}
    asked = {"range": found["range"], "context": {"diagnostics": [found]}}
    (action,) = opened.about("codeAction", URI, **asked)
    assert action["title"] == "write `eos`"
    broken = ORPHEUS.replace("eos {", "eoz {")
    assert applied(broken, action["edit"]["changes"][URI]) == ORPHEUS
    version = opened.change(URI, place, (place[0], place[1] + 3), "eos")
    assert opened.diagnostics(URI, version) == []


def test_opinions_come_when_the_author_rests(opened: LspClient) -> None:
    place = place_of(ORPHEUS, "machine speak")
    opened.change(URI, place, place, "let half = layers / 2\n\n")
    # At once what is wrong, which is nothing; then the rest.
    while not (found := opened.diagnostics(URI)):
        pass
    assert [(d["severity"], d["code"][:3]) for d in found] == [(2, "MS1")]


def test_positions_count_utf_16(opened: LspClient) -> None:
    line = "# 🎙 says π; eos"
    version = opened.change(URI, (0, 0), (0, 0), f"{line}\nmstar 1  # 🎧🎧\nmodel m\nneed eoz\n")
    found = opened.diagnostics(URI, version)
    assert found
    version = opened.change(URI, (0, 0), (4, 0), "")
    assert opened.diagnostics(URI, version) == []
    text = ORPHEUS.replace("## 28 codes", "## 🎙🎙 28 codes")
    opened.change(URI, (0, 0), (999, 0), text)
    row = text.splitlines().index(next(x for x in text.splitlines() if "🎙" in x)) + 1
    start = opened.at("definition", URI, place_of(text, "codes <- token"))["range"]["start"]
    assert start == {"line": row, "character": len("stream ")}


def test_hover(opened: LspClient) -> None:
    answer = opened.at("hover", URI, place_of(ORPHEUS, "codes <- token"))
    assert answer["contents"]["kind"] == "markdown"
    assert "stream codes : i64 chunk sliding" in answer["contents"]["value"]
    assert "28 codes (4 frames) a window" in answer["contents"]["value"]
    pcm = opened.at("hover", URI, place_of(ORPHEUS, "pcm = codec"))
    assert "pcm: f32[2048]" in pcm["contents"]["value"]


def test_definition_references_and_rename(opened: LspClient) -> None:
    place = place_of(ORPHEUS, "eos {")
    declared = place_of(ORPHEUS, "eos      : int")
    answer = opened.at("definition", URI, place)
    assert (answer["range"]["start"]["line"], answer["range"]["start"]["character"]) == declared
    context = {"includeDeclaration": True}
    assert len(opened.at("references", URI, place, context=context)) == 2
    prepared = opened.at("prepareRename", URI, place)
    assert prepared["placeholder"] == "eos"
    edit = opened.at("rename", URI, place, newName="end_of_speech")
    text = applied(ORPHEUS, edit["changes"][URI])
    assert "while token != end_of_speech {" in text
    assert "eos" not in text
    with pytest.raises(LspError, match="there is a config value `layers` already"):
        opened.at("rename", URI, place, newName="layers")


def test_completion_as_it_is_typed(opened: LspClient) -> None:
    place = place_of(ORPHEUS, "    token = lm.step(token)\n")
    typed = "    x = lm."
    for column, char in enumerate(typed):
        opened.change(URI, (place[0], column), (place[0], column), char)
    end = place[0], len(typed)
    opened.change(URI, end, end, "\n")
    answer = opened.at("completion", URI, end)
    assert [item["label"] for item in answer["items"]] == ["prefill", "step"]
    step = answer["items"][1]
    assert step["insertText"] == "step(${1:token})"
    assert step["detail"].startswith("op lm.step(token: i64) -> (next: i64)")


def test_symbols_hints_and_formatting(opened: LspClient) -> None:
    symbols = opened.about("documentSymbol", URI)
    lm = next(symbol for symbol in symbols if symbol["name"] == "lm")
    assert [inner["name"] for inner in lm["children"]] == ["prefill", "step"]
    labels = [hint["label"] for hint in opened.about("inlayHint", URI, range=WHOLE)]
    assert ": f32[2048]" in labels
    options = {"tabSize": 2, "insertSpaces": True}
    assert opened.about("formatting", URI, options=options) == []
    place = place_of(ORPHEUS, "token = lm.step")
    opened.change(URI, place, place, "      ")
    edits = opened.about("formatting", URI, options=options)
    indented = ORPHEUS.replace("token = lm.step", "      token = lm.step")
    assert applied(indented, edits) == ORPHEUS


def test_a_document_that_is_not_open_is_an_error(client: LspClient) -> None:
    with pytest.raises(LspError, match="is not open"):
        client.at("hover", "file:///nowhere.mstar", (0, 0))


def test_a_mistake_of_the_client_does_not_end_the_server(opened: LspClient) -> None:
    with pytest.raises(LspError):
        opened.ask("textDocument/nonsense", {})
    assert opened.at("hover", URI, place_of(ORPHEUS, "pcm = codec")) is not None


def test_a_deployment_file_is_served(client: LspClient) -> None:
    uri = (ROOT / "specs/deployments/mine.yaml").as_uri()
    text = "model: orpheus\nnode_groups:\n  - node_names: [LLN, snac_decoder]\n    ranks: [0]\n"
    client.open(uri, text)
    while not (found := client.diagnostics(uri, 1)):
        pass  # the first is without the spec
    assert found[0]["code"] == "MS0608"
    assert found[0]["range"]["start"] == {"line": 2, "character": 17}
    where = {"textDocument": {"uri": uri}, "position": {"line": 2, "character": 24}}
    items = client.ask("textDocument/completion", where)["items"]
    assert {"LLM", "snac_decoder", "frontend"} <= {item["label"] for item in items}
    assert "snac_decoder" in client.ask("textDocument/hover", where)["contents"]["value"]
    place = client.ask("textDocument/definition", where)
    assert place["uri"].endswith("specs/orpheus.mstar")
    line = ORPHEUS.splitlines()[place["range"]["start"]["line"]]
    assert line.startswith("node codec")
    client.change(uri, (3, 11), (3, 14), "[0")
    found = client.diagnostics(uri, 2)
    assert [finding["code"] for finding in found] == ["MS0602"]
    client.tell("textDocument/didClose", {"textDocument": {"uri": uri}})


def test_other_yaml_is_left_alone(client: LspClient) -> None:
    uri = "file:///work/compose.yaml"
    client.open(uri, "services:\n  web: {image: x\n")
    where = {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 2}}
    assert client.ask("textDocument/hover", where) is None
    assert client.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}}) == []
    client.tell("textDocument/didClose", {"textDocument": {"uri": uri}})

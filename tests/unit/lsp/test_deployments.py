"""An open deployment file: completion, hover, definition and findings, with its spec at hand."""

from random import Random

import pytest

from mstarc import driver
from mstarc.driver import Inspection
from mstarc.lsp.deployments import DeploymentDocument, complete, definition, hover
from tests.support.shipped_specs import SPECS_BY_NAME

BAGEL = driver.inspect(SPECS_BY_NAME["bagel"].source)


def opened(text: str) -> tuple[DeploymentDocument, int]:
    """A document and where `‸` stood in it."""
    offset = text.index("‸")

    def find(model: str) -> Inspection | None:
        return BAGEL if model == "bagel" else None

    return DeploymentDocument(path="d.yaml", text=text.replace("‸", ""), find=find), offset


def offered(text: str) -> set[str]:
    return {item.label for item in complete(*opened(text))}


GROUPS = "model: bagel\nnode_groups:\n"


@pytest.mark.parametrize(
    ("text", "expected", "missing"),
    [
        ("mod‸", {"model", "node_groups", "max_seq_len", "model_kwargs"}, "ranks"),
        (f"{GROUPS}  - ‸", {"node_names", "ranks", "tp_size", "graph_walks"}, "model"),
        (f"{GROUPS}  - node_names: [LLM]\n    ‸", {"ranks", "graph_walks"}, "model"),
        (f"{GROUPS}  - node_names: [LL‸", {"LLM", "vae_decoder", "LLM_cfg_text", "llm"}, "ranks"),
        (f"{GROUPS}  - node_names:\n      - ‸", {"LLM", "vit_encoder", "combine_cfg"}, "ranks"),
        (f"{GROUPS}  - node_names:\n    - LLM\n    - ‸", {"LLM"}, "ranks"),
        (
            f"{GROUPS}  - node_names: [LLM]\n    ranks: [0]\n    graph_walks: [‸]",
            {"prefill_text", "image_gen_cfg", "decode"},
            "LLM",
        ),
        ("model: bagel\nkv_cache:\n  ‸", {"page_size", "max_num_pages"}, "model"),
        ("model: bagel\nkv_cache: {pa‸", {"page_size", "max_num_pages"}, "model"),
        ("model: bagel\nresources:\n  kv_cache:\n    ‸", {"page_size"}, "model"),
        ("model: bagel\nmodel_kwargs:\n  ‸", {"layers"}, "model"),
        ("model: ‸", set(), "ranks"),
        ("devices: ‸", {"2xH200", "2xcpu"}, "model"),
        ("model: bagel  # ‸", set(), "model"),
    ],
)
def test_what_could_be_written_is_offered(text: str, expected: set[str], missing: str) -> None:
    found = offered(text)
    assert expected <= found
    assert missing not in found


def test_a_key_and_a_name_are_explained() -> None:
    found = hover(*opened("model: bagel\nmax_s‸eq_len: 64\n"))
    assert found is not None
    assert "the rows of a request's longest context" in found.markdown
    found = hover(*opened(f"{GROUPS}  - node_names: [L‸LM]\n"))
    assert found is not None
    assert found.markdown.startswith("```mstar\nnode llm : kv_cache")
    found = hover(*opened(f"{GROUPS}  - graph_walks:\n      - prefill_v‸it\n"))
    assert found is not None
    assert "walk prefill_vit" in found.markdown
    assert hover(*opened(f"{GROUPS}  - node_names: [nothi‸ng]\n")) is None


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        (f"{GROUPS}  - node_names: [vae_encoder, L‸LM]\n", "llm"),
        (f"{GROUPS}  - node_names: [LLM_cfg_te‸xt]\n", "no_text"),
        (f"{GROUPS}  - graph_walks: [prefill_v‸it]\n", "prefill_vit"),
        ("model: ba‸gel\n", "bagel"),
        ("model: bagel\nmodel_kwargs: {lay‸ers: 2}\n", "layers"),
    ],
)
def test_a_name_leads_into_the_spec(text: str, declared: str) -> None:
    found = definition(*opened(text))
    assert found is not None
    source, span = found
    assert source.slice(span) == declared


def test_mistakes_show_while_typing_and_those_of_names_with_the_spec() -> None:
    document, _ = opened(f"{GROUPS}  - node_names: [LLN]\n    ranks: [0]\n‸")
    assert document.diagnostics == ()
    document.lint()
    codes = {found.code for found in document.diagnostics}
    assert "MS0608" in codes
    document.change(document.text.replace("ranks: [0]", "ranks: [0"))
    assert [found.code for found in document.diagnostics] == ["MS0602"]
    document.change(document.text.replace("ranks: [0", "ranks: [0]"))
    assert "MS0608" in {found.code for found in document.diagnostics}


def test_a_model_without_a_spec_is_told() -> None:
    document, _ = opened("model: begal\nnode_groups: [{node_names: [a], ranks: [0]}]\n‸")
    document.lint()
    assert [found.code for found in document.diagnostics] == ["MS0606"]


def test_no_text_and_no_place_raises() -> None:
    chance = Random("deployments")
    pieces = [
        "model: bagel\n",
        "node_groups:\n",
        "  - ",
        "node_names: ",
        "[LLM",
        "]",
        "{",
        "}",
        "\n",
    ]
    pieces += ["    ranks: [0]\n", "graph_walks:", " decode", '"', "'", "#", ": ", "\t", "é🎙", ","]
    for _ in range(150):
        text = "".join(chance.choice(pieces) for _ in range(chance.randrange(1, 14)))
        document, _ = opened(text + "‸")
        for offset in (0, len(text), chance.randrange(len(text) + 1)):
            complete(document, offset)
            hover(document, offset)
            definition(document, offset)
        assert all(
            0 <= found.primary.span.start <= found.primary.span.end <= len(text)
            for found in document.diagnostics
        )

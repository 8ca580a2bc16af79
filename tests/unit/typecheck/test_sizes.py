"""Config comes from the spec, a checkpoint and a file of sizes, the last one first."""

from mstarc.source import Span
from mstarc.typecheck import Sizes
from tests.support.front_half import front_half, lowered

SPEC = """
mstar 1
model demo
config {
  width : int = 8 from "encoder.hidden_size"
  ends  : [int] = [1, 2] from "ends"
  scale : float = 1.0
}
request {
  out speech : audio(24000)
}
node voice : stateless {
  impl "demo:Voice"
  op speak(seed: int, scale: float) -> (pcm: f32[2 * width])
}
walk say() {
  pcm = voice.speak(0, scale)
  emit speech <- pcm
}
machine main {
  state begin {
    run say()
    next done
  }
}
"""


def test_defaults_stand_where_nothing_else_is_given() -> None:
    assert dict(lowered(SPEC).config) == {"width": 8, "ends": (1, 2), "scale": 1.0}


def test_a_checkpoint_is_read_by_its_keys() -> None:
    sizes = Sizes(checkpoint={"encoder": {"hidden_size": 3}, "ends": [7]})
    assert dict(lowered(SPEC, sizes).config) == {
        "width": 3,
        "ends": (7,),
        "scale": 1.0,
    }


def test_a_file_of_sizes_wins() -> None:
    sizes = Sizes(checkpoint={"encoder": {"hidden_size": 3}}, config={"width": 5, "scale": 2})
    assert dict(lowered(SPEC, sizes).config) == {
        "width": 5,
        "ends": (1, 2),
        "scale": 2.0,
    }


def test_an_unknown_size_is_reported_where_it_stands() -> None:
    place = Span(path="sizes.yaml", start=3, end=8)
    program, found = front_half(SPEC, Sizes(config={"widht": 5}, spans={"widht": place}))
    assert program is None
    assert [(f.code, f.primary.span) for f in found] == [("MS0217", place)]
    assert found[0].helps == ("did you mean `width`?",)


def test_a_size_of_another_type_is_reported() -> None:
    _, found = front_half(SPEC, Sizes(config={"width": 5.5}))
    assert [f.code for f in found] == ["MS0318"]
    _, found = front_half(SPEC, Sizes(checkpoint={"ends": ["a"]}))
    assert [f.code for f in found] == ["MS0318"]


def test_a_key_that_the_checkpoint_lacks_leaves_the_default() -> None:
    sizes = Sizes(checkpoint={"encoder": 4, "ends": None})
    assert dict(lowered(SPEC, sizes).config)["width"] == 8

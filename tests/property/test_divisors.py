"""A divisor is reported exactly where a request that is allowed makes it 0."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mstarc import driver
from mstarc.source import SourceFile

SPEC = """\
mstar 1
model demo
request {{
  out speech : audio(24000)
  opt a : int = {default} in {low} .. {high}
}}
let part = 100 // ({divisor})
node voice : stateless {{
  impl "demo:Voice"
  op speak(part: int) -> (pcm: f32[8])
}}
walk say() {{
  pcm = voice.speak(part)
  emit speech <- pcm
}}
machine main {{
  state begin {{
    run say()
    next done
  }}
}}
"""


def divisors() -> st.SearchStrategy[str]:
    """Expressions of `a` and small numbers that spec and Python read alike."""
    leaves = st.one_of(st.just("a"), st.integers(0, 9).map(str))

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pairs = st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda p: f"({' '.join(p)})")
        parts = st.tuples(inner, st.sampled_from(["//", "%"]), st.integers(1, 7))
        return pairs | parts.map(lambda p: f"({p[0]} {p[1]} {p[2]})") | inner.map("(-{})".format)

    return st.recursive(leaves, larger, max_leaves=5)


@settings(max_examples=60, deadline=None)
@given(divisors(), st.integers(-9, 9), st.integers(0, 40), st.data())
def test_what_is_reported_is_what_happens(
    divisor: str, low: int, more: int, data: st.DataObject
) -> None:
    default = data.draw(st.integers(low, low + more))
    text = SPEC.format(divisor=divisor, default=default, low=low, high=low + more)
    found = {one.code for one in driver.check(SourceFile(path="a.mstar", text=text)).diagnostics}
    zeros = [eval(divisor, {}, {"a": a}) == 0 for a in range(low, low + more + 1)]
    if "a" not in divisor or (all(zeros) and "MS0315" in found):
        assert bool(found & {"MS0315", "MS0333"}) == all(zeros)
    else:
        assert ("MS0333" in found) == any(zeros), text

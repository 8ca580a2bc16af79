"""A broken text for each construct that syntax errors explain: `FORMS` row by row."""

TOP = "mstar 1\nmodel m\n"


def in_walk(text: str) -> str:
    """A statement in a walk."""
    return f"{TOP}walk w(a: i64) {{ {text} }}"


def in_state(text: str) -> str:
    """A statement in a machine's state."""
    return f"{TOP}machine m {{ state s {{ {text} }} }}"


def in_node(text: str) -> str:
    """An item of a node."""
    return f"{TOP}node n : host {{ {text} }}"


BROKEN: dict[str, str] = {
    "model": "mstar 1\nmodel 3",
    "config": f"{TOP}config x",
    "config_item": f"{TOP}config {{ layers int }}",
    "request": f"{TOP}request x",
    "in_field": f"{TOP}request {{ in prompt text }}",
    "out_field": f"{TOP}request {{ out prompt text }}",
    "opt_field": f"{TOP}request {{ opt prompt text }}",
    "range_domain": f"{TOP}request {{ opt a : int in 1 to 3 }}",
    "choice_domain": f'{TOP}request {{ opt a : str in ["a" "b"] }}',
    "at_least": f"{TOP}request {{ in a : [text] at most 1 }}",
    "need": f"{TOP}need }}",
    "let": f"{TOP}let a : 3",
    "table": f"{TOP}table t[i] = 3",
    "variant": f'{TOP}variant "a" from 3',
    "folded": f'{TOP}folded "a" n',
    "node": f"{TOP}node n host {{ }}",
    "impl_item": in_node("impl x"),
    "weights_item": in_node("weights x"),
    "size": in_node('weights "x" size GB'),
    "shards_item": in_node('shards "x"'),
    "kv_item": in_node("kv layers = 3"),
    "sample_item": in_node("sample a temperature = 3"),
    "contexts_item": in_node('contexts "a"'),
    "context": in_node("contexts a as b"),
    "settings": in_node("kv { 3 }"),
    "setting": in_node("kv { layers : 3 }"),
    "op": in_node("op step { }"),
    "attends": in_node("op step() attends 3"),
    "param": in_node("op step(a b)"),
    "params": in_node("op step(3)"),
    "result": in_node("op step() -> (a b)"),
    "results": in_node("op step() -> a"),
    "tensor_type": in_node("op step(a: i64[T)"),
    "media_type": in_node("op step(a: audio(T))"),
    "bracket_type": f"{TOP}request {{ in a : [text, image] }}",
    "tuple_type": f"{TOP}stream s : (3) chunk fixed(1)",
    "type_field": f"{TOP}stream s : (i64, i64) chunk fixed(1)",
    "stream": f"{TOP}stream s i64 chunk fixed(1)",
    "policy": f"{TOP}stream s : i64 chunk fixed",
    "tail": f"{TOP}stream s : i64 chunk fixed(1) tail pad(T)",
    "walk": f"{TOP}walk w {{ }}",
    "machine": f"{TOP}machine m when {{ }}",
    "state": in_state("next done } state { "),
    "assign": in_walk("a = )"),
    "call_stmt": in_walk("a.b() on 3"),
    "opcall": in_walk("a.b"),
    "opref": in_walk("a.3"),
    "opcall_on": in_walk("c = a.b() on 3"),
    "contextref": in_walk("c = a.b() on x["),
    "contextpath": in_walk("release a"),
    "runcall": in_state("run w"),
    "pull": in_walk("a = pull 3"),
    "pull_or_none": in_walk("a = pull s or 3"),
    "send": in_walk("send a b"),
    "emit": in_walk("emit a b"),
    "loop": in_walk("loop max 3 as { }"),
    "at_most": in_walk("loop max { }"),
    "carry": in_walk("loop max 3 carry a { }"),
    "collect": in_walk("loop max 3 collect a { }"),
    "parallel": in_walk("parallel x"),
    "when": in_walk("when { }"),
    "fork": in_walk("fork 3"),
    "release": in_walk("release 3"),
    "for_": in_state("for a b { }"),
    "match_": in_state("match { }"),
    "arm": in_state("match p { text { } }"),
    "each": in_state("each a b { }"),
    "zip_source": in_state("each zip(a b) as x, y { }"),
    "mark": in_state("mark a"),
    "next_": in_state("next 3"),
    "next_if": in_state("next a if b else 3"),
    "args": in_walk("a = b.c(d e)"),
    "index": in_walk("a = b[c d]"),
    "wants": f"{TOP}need wants 3",
    "has": f"{TOP}need has 3",
    "list_lit": in_walk("a = [b c]"),
    "group": in_walk("a = (b c)"),
}

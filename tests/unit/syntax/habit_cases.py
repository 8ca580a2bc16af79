"""A text for each habit of other languages."""

from tests.unit.syntax.broken_forms import TOP, in_node, in_state, in_walk

# What people write, the code, and the text that the fix writes in its place.
HABIT_CASES: dict[str, list[tuple[str, str, str | None]]] = {
    "definition": [
        (f"{TOP}def w(a: i64) {{ }}", "MS0110", None),
        (f"{TOP}def f(x):\n    y = g(x)\n    return y\n", "MS0110", None),
        (f"{TOP}async def f(x):\n    await x\n", "MS0110", None),
        (f"{TOP}@walk\ndef f(x) -> int:\n    return x\n", "MS0110", None),
        (
            f"{TOP}class LM(Node):\n    def step(self, token):\n        return token\n",
            "MS0110",
            None,
        ),
        (f"{TOP}import torch\nimport numpy as np\nfrom a import b\n", "MS0110", None),
        (f"{TOP}from torch import nn\nlet a = 3\n", "MS0110", None),
        (f"{TOP}use mstar::nodes;", "MS0110", None),
    ],
    "order_of_a_declaration": [
        (f'{TOP}kv_cache lm : node {{ impl "m:C" }}', "MS0101", None),
        (f'{TOP}lm node : kv_cache {{ impl "m:C" }}', "MS0101", None),
    ],
    "model_as_a_block": [('mstar 1\nmodel m {\n  from "o/m"\n}\n', "MS0101", None)],
    "next_with_a_mark": [
        (in_state("next = b"), "MS0112", ""),
        (in_state("run w()\n-> b"), "MS0112", "next"),
    ],
    "counting_loop": [
        (in_walk("for i in range(8) { b.c() }"), "MS0110", None),
        (in_walk("for i in 0 .. 8 { b.c() }"), "MS0110", None),
        (in_walk("for (i = 0; i < 8; i++) { b.c() }"), "MS0110", None),
        (in_walk("\n  for i in range(8):\n    b.c()\n"), "MS0110", None),
    ],
    "argument_with_a_colon": [
        (in_state("run read(ids, last: true)\n"), "MS0112", " ="),
        (in_walk("a = b.c(x, scale: 2)"), "MS0112", " ="),
    ],
    "size_without_unit": [
        (in_node('weights "org/model" size 3\n  op c()'), "MS0101", None),
        (in_node('weights "org/model" size 3.5\n  kv { layers = 2 }'), "MS0101", None),
        (in_node('weights "org/model" size 3\n'), "MS0101", None),
    ],
    "prefix_behind_a_size": [
        (in_node('weights "org/model" size 3 GB under "text."\n  op c()'), "MS0101", None),
        (in_node('weights "org/model" size 3 GB under "text."\n'), "MS0101", None),
    ],
    "context_without_node": [
        (in_walk("fork lm.other = main\n  lm.step()"), "MS0101", None),
        (in_walk("fork other = lm.main\n  lm.step()"), "MS0101", None),
        (in_walk("release main\n  lm.step()"), "MS0101", None),
    ],
    "loop_without_times": [
        (in_walk("loop steps as i { b.c(i) }"), "MS0101", None),
        (in_walk("loop i in steps { b.c(i) }"), "MS0101", None),
        (in_walk("loop 8 { b.c() }"), "MS0101", None),
    ],
    "condition_taken_for_a_suffix": [
        (in_walk("send b <- a\nif guided { d.e() }"), "MS0110", None),
        (in_walk("\n  send b <- a\n  if guided:\n    d.e()\n"), "MS0110", None),
        (in_walk("send b <- a\nif a == 2 { break }"), "MS0110", None),
    ],
    "call_for_a_send": [
        (in_walk("send(codes, a)"), "MS0113", "send codes <- a"),
        (in_walk("emit(speech, a)"), "MS0113", "emit speech <- a"),
        (in_walk("send a to codes"), "MS0113", "send codes <- a"),
        (in_walk("emit(speech, b.c(a))"), "MS0113", None),
    ],
    "negated_operator": [
        (f"{TOP}need a not in [1, 2]", "MS0112", None),
        (f"{TOP}need a is not b", "MS0112", "!="),
    ],
    "statement_without_its_word": [
        (f"{TOP}stream b : i64 chunk fixed(1)\nwalk w(a: i64) {{ b <- a }}", "MS0101", "send "),
        (in_walk("speech <- a"), "MS0101", "emit "),
        (f"{TOP}walk w() {{ }}\nmachine m {{ state s {{ w() next done }} }}", "MS0101", "run "),
    ],
    "run_of_an_op": [(in_state("a = run b.c(d) next e"), "MS0101", "")],
    "typed_value": [(in_walk("\n  b: f32[4] = c.d(a)\n"), "MS0112", "")],
    "flow_of_calls": [
        (in_walk("a -> b.c -> d"), "MS0112", None),
        (in_walk("a |> b.c |> d"), "MS0112", None),
        (in_walk("a += b.c(a)"), "MS0112", None),
    ],
    "each_in_another_order": [(in_state("each w in codes { run v(w) }"), "MS0101", "codes as w")],
    "choice_by_a_question_mark": [(in_state("next b ? c : d"), "MS0112", None)],
    "dash_in_a_name": [
        ("mstar 1\nmodel orpheus-3b\n", "MS0101", "orpheus_3b"),
        (f'{TOP}node my-lm : host {{ impl "m:C" }}', "MS0101", "my_lm"),
    ],
    "range_as_a_call": [
        (f"{TOP}request {{ opt a : float = 0.6 in range(0, 2) }}", "MS0110", None),
    ],
    "generic_type": [
        (in_node("op b(a: tensor<28xi64>)"), "MS0110", None),
        (in_node("op b(a: Optional<i64>)"), "MS0110", None),
    ],
    "literal": [
        (f"{TOP}config {{ a : bool = True }}", "MS0110", "true"),
        (f"{TOP}request {{ opt a : str = None }}", "MS0110", None),
    ],
    "text_without_quotes": [
        (in_node("impl orpheus:LanguageModel"), "MS0101", '"orpheus:LanguageModel"'),
        ("mstar 1\nmodel m from org/m-3b-0.1-ft\n", "MS0101", '"org/m-3b-0.1-ft"'),
        (in_node('impl f"m:{name}"'), "MS0112", ""),
    ],
    "results_without_parentheses": [
        (in_node("op b(a: i64) -> i64"), "MS0101", None),
        (in_node("op b(a: i64) -> c: i64[T, 4] attends causal"), "MS0101", "(c: i64[T, 4])"),
        (f"{TOP}walk w(a: i64) -> {{ b.c(a) }}", "MS0101", None),
    ],
    "alias_after_parameters": [
        (f'{TOP}walk w(a: i64) as "x" {{ b.c(a) }}', "MS0101", None),
    ],
    "op_without_its_word": [
        (in_node('impl "m:C"\nstep(a: i64) -> (b: i64)\nop c()'), "MS0101", "op "),
        (in_node("op c() writes\nstep(a: i64) -> (b: i64)"), "MS0101", "op "),
    ],
    "settings_without_commas": [
        (in_node("kv {\n  layers = 2\n  heads = 2\n}"), "MS0101", ","),
    ],
    "slashes_for_a_comment": [
        (f"{TOP}config {{ layers : int = 28 // of the decoder\n}}", "MS0111", "#"),
        (in_walk("a = b.c(d) // then e\n"), "MS0111", "#"),
    ],
    "yaml_key": [
        ("mstar 1\nmodel: orpheus\n", "MS0114", None),
        (f"{TOP}nodes:\n  - name: lm\n    engine: kv_cache\n", "MS0114", None),
    ],
    "word_of_another_language": [
        (f'{TOP}component lm : host {{ impl "m:C" }}', "MS0110", "node"),
        (in_walk("if wants speech { a.b() }"), "MS0110", "when"),
        (in_walk("while a != 3 { b.c() }"), "MS0110", None),
        (in_walk("\n  if guided:\n    b.c()\n"), "MS0110", None),
        (in_walk("\n  while a != 3:\n    b.c()\n"), "MS0110", None),
        (in_node("op a() writes\n  def step(self, token):"), "MS0110", None),
        (f"{TOP}request {{ input prompt : text }}", "MS0110", "in"),
        (in_walk("return a"), "MS0110", None),
        (in_node('class "m:C"'), "MS0110", "impl"),
    ],
    "item_at_the_top": [
        (f"{TOP}op step(token: i64) -> (next: i64)", "MS0109", None),
        (f"{TOP}emit speech <- pcm", "MS0109", None),
    ],
    "comma_between_items": [
        (f"{TOP}config {{ a : int = 1, b : int = 2 }}", "MS0112", ""),
        (f"{TOP}request {{ in a : text, out b : text }}", "MS0112", ""),
    ],
    "equals_for_an_arrow": [
        (in_walk("emit speech = a"), "MS0113", "<-"),
        (in_walk("send codes -> a"), "MS0113", "<-"),
        (
            f"{TOP}stream codes : i64 chunk fixed(1)\nwalk w(a: i64) {{ send a -> codes }}",
            "MS0113",
            None,
        ),
    ],
    "stream_without_policy": [
        (f"{TOP}stream codes : i64 tail drop", "MS0116", None),
        (f"{TOP}stream codes : i64\nlet a = 3", "MS0116", None),
    ],
    "loop_without_bound": [
        (in_walk("loop { a.b() }"), "MS0117", None),
        (in_walk("loop while a != 3 { b.c() }"), "MS0117", None),
    ],
    "type_left_out": [
        (f"{TOP}request {{\n  in prompt\n  out speech : audio(24000)\n}}", "MS0101", None),
        (f"{TOP}config {{ layers = 28 }}", "MS0101", None),
        (in_node("op step(token)"), "MS0101", None),
        (f"{TOP}stream codes chunk fixed(1)", "MS0101", None),
    ],
    "block_by_indentation": [
        (f'{TOP}node lm : host\n  impl "m:C"\n', "MS0114", None),
        (f"{TOP}walk w(a: i64):\n  b.c(a)\n", "MS0114", None),
    ],
    "reserved_name": [
        (in_state("next = a.b()"), "MS0106", None),
        (in_walk("a = send b <- c"), "MS0106", None),
    ],
}

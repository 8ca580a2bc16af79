"""How each construct is written, for messages: one row a construct, each with a test."""

from mstarc.records import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """`noun` is what a person calls it, `text` how it is written."""

    noun: str
    text: str


FORMS: dict[str, Form] = {
    "model": Form("the model line", '`model name from "org/checkpoint"`'),
    "config": Form("a config block", "`config { name : type = default … }`"),
    "config_item": Form("a config item", '`name : type = default from "key"`'),
    "variant": Form(
        "a variant", '`variant "name" from "org/checkpoint" without output { value = 64 }`'
    ),
    "request": Form("a request block", "`request { in … out … opt … }`"),
    "in_field": Form("an input", "`in name : type at least 1 turns optional`"),
    "out_field": Form("an output", "`out name : type optional via node.op`"),
    "opt_field": Form("an option", "`opt name : type = default in low .. high`"),
    "range_domain": Form("the range of an option", "`in low .. high`, with numbers"),
    "choice_domain": Form("a list of choices", '`in ["a", "b"]`'),
    "at_least": Form("the number of parts", "`at least 1 turns`"),
    "need": Form("a need", "`need condition`"),
    "let": Form("a let", "`let name = value`"),
    "table": Form("a table", "`table name[i in length] = value`"),
    "folded": Form("a folded name", '`folded "public name" into node`'),
    "node": Form("a node", '`node name : engine as "public name" { … }`'),
    "impl_item": Form("an impl", '`impl "module:Class"`'),
    "weights_item": Form("the weights item", '`weights "source" under "prefix." size 14 GB`'),
    "size": Form("a size", "`size 14 GB`"),
    "shards_item": Form("the shards item", "`shards tensor, expert`"),
    "kv_item": Form("the kv item", "`kv { layers = 28, heads = 8, head_dim = 128 }`"),
    "sample_item": Form("a sampler", "`sample name { temperature = 0.6 }`"),
    "contexts_item": Form(
        "the contexts item", '`contexts main, dream[8], sound cross(1500) as "alias"`'
    ),
    "context": Form("a context", '`name[count] cross(length) as "alias"`'),
    "settings": Form("a list of settings", "`{ name = value, name = value }`"),
    "setting": Form("a setting", "`name = value`"),
    "op": Form("an op", "`op name(param: type) -> (result: type) effects`"),
    "attends": Form("attends", "`attends causal`, `full`, `prefix` or `frames(n)`"),
    "param": Form("a parameter", "`name: type`"),
    "params": Form("a list of parameters", "`(name: type, name: type)`"),
    "result": Form("a result", "`name: type if flag`"),
    "results": Form("a list of results", "`-> (name: type, name: type if flag)`"),
    "tensor_type": Form("a tensor type", "`bf16[T, hidden]`"),
    "media_type": Form("a media type", "`audio(24000)`"),
    "bracket_type": Form("a type in brackets", "`[text | image]`, or `[int]`"),
    "tuple_type": Form("a tuple type", "`(name: type, name: type)`"),
    "type_field": Form("a field of a tuple type", "`name: type`"),
    "stream": Form("a stream", "`stream name : item marks a, b chunk policy tail drop empty skip`"),
    "policy": Form("a chunk policy", "`fixed(k)`, `sliding(window = w, stride = s)`, …"),
    "tail": Form("a tail", "`tail drop`, `tail short` or `tail pad(value)`"),
    "walk": Form("a walk", "`walk name(param: type) -> (result: type) { … }`"),
    "machine": Form("a machine", "`machine name when condition { state … }`"),
    "state": Form("a state", "`state name { … }`"),
    "assign": Form("an assignment", "`name, name = value`"),
    "call_stmt": Form("a call", "`node.op(args) on context`"),
    "opcall": Form("a call", "`node.op(args)`"),
    "opref": Form("an op's name", "`node.op`"),
    "opcall_on": Form("a call on a context", "`node.op(args) on context`"),
    "contextref": Form("a context", "`name`, or `name[index]`"),
    "contextpath": Form("a node's context", "`node.context`"),
    "runcall": Form("a run", "`run walk(args)`"),
    "pull": Form("a pull", "`pull stream`, or `pull stream or none`"),
    "pull_or_none": Form("a pull", "`pull stream or none`"),
    "send": Form("a send", "`send stream <- value, value if condition`"),
    "emit": Form("an emit", "`emit output <- value if condition`"),
    "loop": Form(
        "a loop",
        "`loop max n as i carry x = x0 collect all = x while condition { … } until condition`",
    ),
    "at_most": Form("a loop's bound", "`loop max n`"),
    "carry": Form("a carried value", "`carry name = initial`"),
    "collect": Form("a collected value", "`collect name = value`"),
    "parallel": Form("parallel", "`parallel { … }`"),
    "when": Form("a when", "`when condition { … } else { … }`"),
    "fork": Form("a fork", "`fork node.context = node.context if condition`"),
    "release": Form("a release", "`release node.context`"),
    "for_": Form("a for", "`for part in parts { … }`"),
    "match_": Form("a match", "`match part { text(t) { … } }`"),
    "arm": Form("an arm of a match", "`kind(name) { … }`"),
    "each": Form("an each", "`each stream as name chunk policy until mark { … }`"),
    "zip_source": Form("a zip", "`zip(a, b)`"),
    "mark": Form("a mark", "`mark stream.mark`"),
    "next_": Form("a transition", "`next state if condition else state`"),
    "next_if": Form("a transition", "`next state if condition else state`"),
    "args": Form("a list of arguments", "`(value, name = value)`"),
    "index": Form("an index", "`value[i, 1:n]`"),
    "wants": Form("a condition", "`wants output`"),
    "has": Form("a condition", "`has kind`"),
    "list_lit": Form("a list", "`[value, value]`"),
    "group": Form("a value in parentheses", "`(value)`, or `(value, value)`"),
}
"""By rule or alias of the grammar."""

"""Words of other languages, by where they stand: what to say, what is meant, how to write it."""

from mstarc.records import dataclass


@dataclass(frozen=True, slots=True)
class ForeignWord:
    """`says` is why the word is none here, `meant` the word that stands for it, where one does, and
    `help` how the whole is written (without one: "write `meant`")."""

    says: str
    meant: str | None = None
    help: str = ""
    note: str = ""


_WALK = "write `walk name(param: type) -> (result: type) { … }`"
_NODE = 'write `node name : engine { impl "module:Class"  op name(param: type) -> (result: type) }`'
_PYTHON = "what computes is written in Python, in the class that a node's `impl` names"
_LOOP = "write `loop n times { … }`, or `loop max n carry x = x0 while condition { … }`"
_RESULT = (
    "set the name that the walk declares after `->`: "
    "`walk name(…) -> (result: type) { result = … }`"
)

_DEFINITION = ForeignWord("a path through the nodes is a `walk`", None, _WALK, _PYTHON)
_CLASS = ForeignWord("a block of a model is a `node`", None, _NODE, _PYTHON)
_IMPORT = ForeignWord(
    "a spec is one whole file",
    None,
    'leave it out; a node says what computes: `impl "module:Class"`',
)
_NODE_WORD = ForeignWord("a block of a model is a `node`", "node")
_WALK_WORD = ForeignWord("a path through the nodes is a `walk`", "walk")
_MACHINE_WORD = ForeignWord("what chooses walks is a `machine`", "machine")

DEFINITIONS: dict[str, ForeignWord] = {
    **dict.fromkeys(("def", "fn", "fun", "func", "function", "async", "lambda"), _DEFINITION),
    **dict.fromkeys(("class", "struct", "interface", "trait", "impl"), _CLASS),
    **dict.fromkeys(
        ("import", "from", "include", "use", "using", "require", "package", "namespace", "export"),
        _IMPORT,
    ),
    "@": ForeignWord("a spec has no decorators", None, _WALK, _PYTHON),
    "type": ForeignWord(
        "types have no names of their own", None, "write the type where it is used"
    ),
    "enum": ForeignWord(
        "the choices of an option stand in its domain",
        None,
        'write `opt name : str = "a" in ["a", "b"]` in `request { … }`',
    ),
    "inputs": ForeignWord(
        "inputs stand in the request", None, "write `request { in name : type }`"
    ),
    "outputs": ForeignWord(
        "outputs stand in the request", None, "write `request { out name : type }`"
    ),
    "const": ForeignWord(
        "constants stand in the config", None, "write `config { name : type = value }`"
    ),
    "edge": ForeignWord(
        "calls are joined by the names of their values",
        None,
        "write `a = one.op(x)` and then `b = other.op(a)` in a walk",
    ),
}
"""At the top, where the whole declaration means nothing here."""

DECLARATIONS: dict[str, ForeignWord] = {
    **dict.fromkeys(("component", "submodule", "module", "nodes"), _NODE_WORD),
    **dict.fromkeys(("graph", "pipeline", "walks"), _WALK_WORD),
    **dict.fromkeys(("partition", "schedule", "machines"), _MACHINE_WORD),
    "streams": ForeignWord("each stream is declared by itself", "stream"),
    "queue": ForeignWord("what carries items between machines is a `stream`", "stream"),
    "channel": ForeignWord("what carries items between machines is a `stream`", "stream"),
    "var": ForeignWord("a static value is declared with `let`", "let"),
    **dict.fromkeys(
        ("assert", "ensure", "check", "constraint", "requires"),
        ForeignWord("what every request must satisfy is a `need`", "need"),
    ),
}
"""At the top, where one word stands for the other."""

STATEMENTS: dict[str, ForeignWord] = {
    "if": ForeignWord("a static choice is a `when`", "when"),
    "elif": ForeignWord(
        "the other branch is `else when`", None, "write `when a { … } else when b { … }`"
    ),
    "while": ForeignWord("a loop has a bound: `loop max n while …`", None, _LOOP),
    "repeat": ForeignWord("a loop is `loop n times`", None, _LOOP),
    "do": ForeignWord("a loop is `loop max n { … } until condition`", None, _LOOP),
    "foreach": ForeignWord("chunks of a stream are read by `each`", "each"),
    "return": ForeignWord(
        "results are the values of their names when the walk ends", None, _RESULT
    ),
    "break": ForeignWord(
        "a loop ends by its own condition",
        None,
        "write `loop max n … while condition { … }`, tested before each pass, or "
        "`{ … } until condition`, tested after",
    ),
    "continue": ForeignWord(
        "a pass of a loop runs to its end",
        None,
        "put what may be left out in `when condition { … }`; the condition is static",
    ),
    "yield": ForeignWord(
        "`emit` gives a value to the client, `send` to a stream",
        None,
        "write `emit output <- value`, or `send stream <- value`",
    ),
    "switch": ForeignWord("kinds of parts are told apart by `match`", "match"),
    "goto": ForeignWord("the next state is named by `next`", "next"),
    "transition": ForeignWord("the next state is named by `next`", "next"),
    "on": ForeignWord(
        "a machine has no events: it runs from state to state",
        None,
        "write `next state` at the end of a state, or `next state if condition else other`",
    ),
    "call": ForeignWord("a machine runs a walk with `run`", "run"),
    **dict.fromkeys(
        ("var", "const", "auto"),
        ForeignWord("a value has a name by `name = …`", None, "leave the word out: `name = …`"),
    ),
    "await": ForeignWord(
        "a stream's next item is `pull stream`", None, "write `item = pull stream or none`"
    ),
    "print": ForeignWord(
        "a spec prints nothing", None, "write `emit output <- value` to give a value to the client"
    ),
    **dict.fromkeys(
        ("pass", "assert", "raise", "throw", "try", "with", "del", "global"),
        ForeignWord("a walk holds calls, loops, choices and sends", None, "leave it out", _PYTHON),
    ),
}

NODE_ITEMS: dict[str, ForeignWord] = {
    "class": ForeignWord("the class is named by `impl`", "impl"),
    **dict.fromkeys(
        ("def", "fn", "func", "function", "method"),
        ForeignWord(
            "what a node can do is an `op`", "op", "write `op name(param: type) -> (result: type)`"
        ),
    ),
    "kv_cache": ForeignWord("the cache's sizes stand in `kv { … }`", "kv"),
    "cache": ForeignWord("the cache's sizes stand in `kv { … }`", "kv"),
    "sampling": ForeignWord("a sampler is `sample { … }`", "sample"),
    "sampler": ForeignWord("a sampler is `sample { … }`", "sample"),
    "context": ForeignWord("contexts are named by `contexts`", "contexts"),
    "checkpoint": ForeignWord("a checkpoint is named by `weights`", "weights"),
}

FIELDS: dict[str, ForeignWord] = {
    **dict.fromkeys(("input", "inputs"), ForeignWord("what a request brings is `in`", "in")),
    **dict.fromkeys(("output", "outputs"), ForeignWord("what an answer holds is `out`", "out")),
    **dict.fromkeys(
        ("option", "param", "parameter", "setting"),
        ForeignWord("what a request may set is `opt`", "opt"),
    ),
}

LITERALS: dict[str, str] = {
    "True": "true",
    "False": "false",
    **dict.fromkeys(("None", "null", "nil", "NULL", "undefined", "nullptr"), "none"),
}
"""Values as other languages write them."""

FOREIGN_VALUES = {
    "self": "nodes are called by their names: `node.op(…)`",
    "this": "nodes are called by their names: `node.op(…)`",
    "await": "a call needs no word; a stream's next item is `pull stream`",
    "new": "a call needs no word: `node.op(…)`",
    "lambda": "what computes is an op of a node",
    "super": "nodes are called by their names: `node.op(…)`",
}
"""Words that are read as names of values, and what to do instead."""

GENERIC_TYPES: dict[str, str] = {
    **dict.fromkeys(
        ("list", "List", "Sequence", "Iterable", "Array", "Vector", "vec", "Vec"),
        "parts of a request are `[text | image]`, and values of one kind a tensor: `i64[T]`",
    ),
    **dict.fromkeys(("Optional", "optional", "Maybe"), "what may be missing is `type or none`"),
    **dict.fromkeys(("Tuple", "tuple"), "an item of several values is `(a: type, b: type)`"),
    **dict.fromkeys(("dict", "Dict", "Union", "Literal"), "write the types one by one"),
}
"""Types of types in other languages, and what there is here."""

PLACES_OF_ITEMS = {
    **dict.fromkeys(("op", "impl", "weights", "shards", "kv", "sample", "contexts"), "a node"),
    **dict.fromkeys(("send", "emit", "loop", "parallel", "pull"), "a walk"),
    **dict.fromkeys(("for", "match", "each", "next"), "a machine's state"),
    **dict.fromkeys(("fork", "release", "run", "mark", "when"), "a walk or a machine's state"),
    **dict.fromkeys(("in", "out", "opt"), "the request block"),
    "state": "a machine",
}
"""Words of the language that stand inside of a block, and of which."""

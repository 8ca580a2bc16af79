"""The Walk IR: what a spec means, with every name resolved and every type attached.

`lowering` builds a `Program` from the typed AST; `passes` turn programs into programs; `plan`
flattens the last one into steps. Walks are in single-assignment form; machines hold registers.
`text` prints and parses programs (`program.mir`), `verify` holds the invariants, `interpret` is
the meaning. Nothing here knows syntax, placement search or Python output. Start at `graph.py`.
"""

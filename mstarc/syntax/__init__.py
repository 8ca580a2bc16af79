"""Text to syntax tree and back: the only place that knows lark.

`parser.parse` turns a `SourceFile` into an `ast.Spec` and reports syntax errors (MS01xx);
`printer.print_spec` writes a tree in the one canonical form, comments kept. What names and types
mean is not known here: that is `mstarc.names` and `mstarc.typecheck`. Start reading at `ast`.
"""

"""The textual form of programs, `program.mir`: printed by `print_program`, read by `parse_program`.

`parse_program(print_program(p)) == p` holds for every program. The form is line-oriented for
people and free-form for the parser; a `;` starts a comment. Sigils say what a name is:

    %x    a value of a walk or a register     $x   an option of the request
    @x    an input of the request             ^x   the index of a loop
    #x/0  the site of a call, run or loop     !8:9 the span in the spec (file in the first line)

Nothing here knows what a program means or whether it is sound (`verify`, `interpret`).
Start at `printer.py`.
"""

from mstarc.ir.text.lexer import MirSyntaxError
from mstarc.ir.text.parser import parse_program
from mstarc.ir.text.print_exprs import format_dim, format_expr, format_policy, format_type
from mstarc.ir.text.printer import print_program

__all__ = [
    "MirSyntaxError",
    "format_dim",
    "format_expr",
    "format_policy",
    "format_type",
    "parse_program",
    "print_program",
]

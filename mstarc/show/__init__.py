"""Pictures of a model: a `Program` becomes a terminal tree, Mermaid, DOT, SVG or one HTML page.

`picture` has the facts that all of them show: machines with their states, and in those
the walks, loops and calls as nested blocks, with the streams between them. Each format is one
file and a row in `FORMS`. `trace` runs a toy request through `mstarc.ir.interpret` and notes what
happens in which order; the page steps through that. Nothing here knows the syntax tree, and
nothing is computed about a plan: ranks and regions are what the passes wrote into the program.
Start reading at `picture.py`.
"""

from mstarc.show.blocks import picture
from mstarc.show.forms import FORMS, Form
from mstarc.show.picture import Picture
from mstarc.show.select import selected, show_names

__all__ = ["FORMS", "Form", "Picture", "picture", "selected", "show_names"]

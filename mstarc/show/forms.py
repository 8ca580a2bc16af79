"""The forms in which a picture can be shown, one file each."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from mstarc.show.dot import dot
from mstarc.show.mermaid import mermaid
from mstarc.show.picture import Picture
from mstarc.show.svg import svg

Form: TypeAlias = Callable[[Picture], str]

FORMS: Mapping[str, Form] = MappingProxyType({"mermaid": mermaid, "dot": dot, "svg": svg})
"""Forms that need nothing but the picture. The terminal's needs a width, the page a trace."""

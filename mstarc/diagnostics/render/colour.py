"""Terminal colours by what they mean. Meaning is never in the colour alone."""

from mstarc.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Palette:
    """The escape sequence that begins each kind of text; empty ones leave the text plain."""

    error: str = ""
    warning: str = ""
    strong: str = ""
    frame: str = ""
    remedy: str = ""

    def paint(self, text: str, start: str) -> str:
        """`text` between `start` and the reset sequence; as it is without a colour or a text."""
        return f"{start}{text}\x1b[0m" if start and text else text

    def severity(self, severity: str) -> str:
        """The colour of a severity."""
        return self.error if severity == "error" else self.warning


PLAIN = Palette()
COLOURED = Palette(
    error="\x1b[1;31m",
    warning="\x1b[1;33m",
    strong="\x1b[1m",
    frame="\x1b[1;34m",
    remedy="\x1b[1;36m",
)

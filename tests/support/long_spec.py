"""A spec as long as one likes: the parts of `voice_chat`, again and again under other names."""

import re

from tests.support.golden import ROOT


def long_spec(lines: int = 2000) -> str:
    """A spec of at least so many lines, without a mistake."""
    text = (ROOT / "specs" / "voice_chat.mstar").read_text(encoding="utf-8")
    head, _, parts = text.partition("node ear")
    parts = "node ear" + parts
    names = sorted(set(re.findall(r"^(?:node|stream|walk|machine) (\w+)", parts, re.MULTILINE)))
    head = re.sub(r"via (\w+)\.", r"via \1_0.", head)
    pieces = [head]
    copies = 0
    while sum(piece.count("\n") for piece in pieces) < lines:
        pieces.append(_renamed(parts, names, copies))
        copies += 1
    return "".join(pieces)


def _renamed(parts: str, names: list[str], copy: int) -> str:
    for name in names:
        new = f"{name}_{copy}"
        parts = re.sub(rf"(?m)^((?:node|stream|walk|machine) ){name}\b", rf"\g<1>{new}", parts)
        parts = re.sub(rf"\brun {name}\(", f"run {new}(", parts)
        parts = re.sub(rf"\b(send|each) {name}\b", rf"\1 {new}", parts)
        parts = re.sub(rf"(?<![\w.]){name}\.(?=\w+\()", f"{new}.", parts)
    return parts.rstrip("\n") + "\n\n"

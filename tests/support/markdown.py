"""Cut a Markdown page into cases: a heading, a spec, what it should report.

A case is one ```` ```mstar ```` block with the ```` ```yaml ```` (a deployment) and
```` ```diagnostics ```` (the exact output) blocks that follow it. In a spec or a deployment
`# error: [MS0412] part of the text` at the end of a line announces a diagnostic that starts on that
line; alone on a line it announces one for the next.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

FENCE = re.compile(r"^(?P<fence>`{3,})(?P<language>\w+)?(?P<info>[^`]*)$")
HEADING = re.compile(r"^(?P<level>#{1,6})\s+(?P<title>.+?)\s*$")
ANNOUNCED = re.compile(
    r"#\s*(?P<severity>error|warning):\s*(?P<codes>(?:\[MS\d{4}\]\s*)+)(?P<text>.*)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A diagnostic that a comment announces: it starts on `line` (from 1) of its block."""

    line: int
    severity: str
    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block. `first_line` (from 1) is the page's line of its first content line."""

    language: str
    info: str
    text: str
    first_line: int
    heading: str

    @property
    def end_line(self) -> int:
        """The page's line of the closing fence."""
        return self.first_line + self.text.count("\n")

    @property
    def settings(self) -> dict[str, str]:
        """The `key=value` words after the language."""
        return dict(word.split("=", 1) for word in self.info.split() if "=" in word)


@dataclass(slots=True, kw_only=True)
class Case:
    """One spec and what belongs to it."""

    spec: Block
    deployments: list[Block] = field(default_factory=list)
    diagnostics: Block | None = None


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, each with the headings above it joined by ` / `."""
    titles: dict[int, str] = {}
    lines = page.split("\n")
    index = 0
    while index < len(lines):
        line = lines[index]
        if heading := HEADING.match(line):
            level = len(heading["level"])
            titles = {k: v for k, v in titles.items() if k < level} | {level: heading["title"]}
        elif fence := FENCE.match(line):
            start = index + 1
            index = start
            while index < len(lines) and lines[index] != fence["fence"]:
                index += 1
            yield Block(
                language=fence["language"] or "",
                info=fence["info"].strip(),
                text="".join(f"{content}\n" for content in lines[start:index]),
                first_line=start + 1,
                heading=" / ".join(titles[k] for k in sorted(titles)),
            )
        index += 1


def cases(page: str) -> list[Case]:
    """The cases of a page in their order."""
    found: list[Case] = []
    for block in blocks(page):
        match block.language:
            case "mstar":
                found.append(Case(spec=block))
            case "yaml" if found:
                found[-1].deployments.append(block)
            case "diagnostics" if found:
                found[-1].diagnostics = block
            case _:
                pass
    return found


def expectations(text: str) -> list[Expectation]:
    """What the comments of a spec or a deployment announce."""
    found: list[Expectation] = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        announced = ANNOUNCED.search(line)
        if announced is None:
            continue
        target = number
        if not line[: announced.start()].strip():
            target += 1
            while target <= len(lines) and lines[target - 1].lstrip().startswith("#"):
                target += 1
        found.extend(
            Expectation(
                line=target,
                severity=announced["severity"],
                code=code,
                text=announced["text"].strip(),
            )
            for code in re.findall(r"MS\d{4}", announced["codes"])
        )
    return found


def replace_block(page: str, old: Block, text: str) -> str:
    """The page with the content of `old`, found by its place, replaced by `text`."""
    lines = page.split("\n")
    before, after = lines[: old.first_line - 1], lines[old.end_line - 1 :]
    return "\n".join([*before, *text.removesuffix("\n").split("\n"), *after])

"""The form of a `.mirtest` file: a title, options, a program before a pass and after it.

    # A window and a stride give the capacity
    The producer sends one item a step, so window + stride is enough.

    -- options
    placement: 2xcpu

    -- before
    program "m" …

    -- after
    program "m" …

`options` (`placement`, `graphs: required`) and `deployment` (the text of a deployment file) may be
left out.
`diagnostics` in the place of `after` holds what the pass reports when it refuses the program.
"""

import re
from dataclasses import dataclass

SECTION = re.compile(r"^-- (?P<name>[a-z]+)$", re.MULTILINE)
KNOWN = ("options", "deployment", "before", "after", "diagnostics")


@dataclass(frozen=True, slots=True, kw_only=True)
class MirFile:
    """A parsed `.mirtest`. `after` and `diagnostics` are none where the file lacks the section."""

    title: str
    options: dict[str, str]
    deployment: str | None
    before: str
    after: str | None
    diagnostics: str | None


def parse_mirfile(text: str) -> MirFile:
    """Cut a `.mirtest` into its parts. Raises `ValueError` for one that lacks a part."""
    preamble, *rest = SECTION.split(text)
    sections = {name: body.strip("\n") + "\n" for name, body in zip(*[iter(rest)] * 2, strict=True)}
    unknown = [name for name in sections if name not in KNOWN]
    title = preamble.partition("\n")[0].removeprefix("# ").strip()
    if not preamble.startswith("# ") or not title:
        raise ValueError("a .mirtest begins with `# ` and its title")
    if unknown:
        raise ValueError(f"no such section: {', '.join(unknown)} ; there are {', '.join(KNOWN)}")
    if "before" not in sections:
        raise ValueError("there is no section `-- before`")
    lines = [line for line in sections.get("options", "").splitlines() if line.strip()]
    return MirFile(
        title=title,
        options={key.strip(): value.strip() for key, _, value in (x.partition(":") for x in lines)},
        deployment=sections.get("deployment"),
        before=sections["before"],
        after=sections.get("after"),
        diagnostics=sections.get("diagnostics"),
    )


def replace_section(text: str, name: str, body: str) -> str:
    """The file with one section's body replaced; a section that is not there comes last."""
    parts = SECTION.split(text)
    for index in range(1, len(parts), 2):
        if parts[index] == name:
            last = index + 2 == len(parts)
            parts[index + 1] = f"\n{body}" if last else f"\n{body}\n"
            break
    else:
        parts[-1] = parts[-1].rstrip("\n") + "\n\n"
        parts += [name, f"\n{body}"]
    joined = parts[0]
    for index in range(1, len(parts), 2):
        joined += f"-- {parts[index]}{parts[index + 1]}"
    return joined

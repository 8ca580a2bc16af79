"""The files that mstarc ships besides its code: the grammar, the specs, the error pages.

In a checkout they are read where they are written, from an installed wheel in `mstarc/_data`.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_SHIPPED = _PACKAGE / "_data"


@cache
def grammar_folder() -> Path:
    """The folder of `mstar.lark`."""
    return _folder("grammar", "grammar")


@cache
def specs_folder() -> Path:
    """The folder of the shipped specs, with `deployments/` and `tiny/` inside."""
    return _folder("specs", "specs")


def spec_folders(deployment: Path) -> Iterator[Path]:
    """Where the spec of a deployment file is looked for, in order.

    Beside the file, in the folder above it, in `specs/` of the working folder, among ours.
    """
    seen: set[Path] = set()
    near = list(deployment.absolute().parents)[:2]
    for folder in (*near, Path.cwd() / "specs", specs_folder()):
        resolved = folder.resolve()
        if resolved not in seen and resolved.is_dir():
            seen.add(resolved)
            yield folder


@cache
def error_pages_folder() -> Path:
    """The folder of one Markdown page a code."""
    return _folder("errors", "docs/errors")


def error_page(code: str) -> str | None:
    """The page that explains `code`, or none. `code` may be any text that a user wrote."""
    if re.fullmatch(r"MS\d{4}", code) is None:
        return None
    page = error_pages_folder() / f"{code}.md"
    return page.read_text(encoding="utf-8") if page.is_file() else None


def error_page_names() -> dict[str, str]:
    """The name of every code that has a page, from the pages' titles; by code, ascending."""
    names = {}
    for page in sorted(error_pages_folder().glob("MS*.md")):
        with page.open(encoding="utf-8") as lines:
            title = re.match(r"# (?P<name>[a-z0-9-]+) \((?P<code>MS\d{4})\)", next(lines, ""))
        if title is not None and title["code"] == page.stem:
            names[page.stem] = title["name"]
    return names


def _folder(shipped: str, written: str) -> Path:
    installed = _SHIPPED / shipped
    return installed if installed.is_dir() else _PACKAGE.parent / written

"""The grammar for editors knows every word of the language, and its own tests pass."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from mstarc import driver
from mstarc.lsp.index import index_of
from mstarc.source import SourceFile
from mstarc.syntax import ast
from mstarc.syntax.tables import load_tables
from tests.support.golden import ROOT

GRAMMAR = json.loads((ROOT / "grammar/mstar.tmLanguage.json").read_text(encoding="utf-8"))
EXTENSION = ROOT / "editors" / "vscode"


def rules(node: Any) -> Iterator[dict[str, Any]]:
    """Every rule that matches something."""
    if isinstance(node, list):
        for entry in node:
            yield from rules(entry)
    elif isinstance(node, dict):
        if "match" in node or "begin" in node:
            yield node
        for entry in node.values():
            yield from rules(entry)


def test_every_pattern_is_a_pattern_and_every_scope_is_ours() -> None:
    found = list(rules(GRAMMAR))
    assert len(found) > 60
    for rule in found:
        for key in ("match", "begin", "end"):
            if key in rule:
                groups = re.compile(rule[key]).groups
                captures = [int(number) for number in rule.get("captures", {})]
                assert key != "match" or max(captures, default=0) <= groups, rule[key]
        for capture in (rule, *rule.get("captures", {}).values()):
            assert capture.get("name", ".mstar").endswith(".mstar")


def test_every_included_rule_is_there() -> None:
    included = {entry["include"] for entry in GRAMMAR["patterns"]}
    assert included == {f"#{name}" for name in GRAMMAR["repository"]}


def test_every_word_of_the_language_is_coloured() -> None:
    patterns = [rule.get("match", "") for rule in rules(GRAMMAR)]
    for word in load_tables().words:
        assert any(re.search(rf"\b{word}\b", pattern) for pattern in patterns), word


def test_the_extension_takes_the_grammar_and_starts_the_server() -> None:
    package = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
    (grammar,) = package["contributes"]["grammars"]
    assert grammar["scopeName"] == GRAMMAR["scopeName"]
    (language,) = package["contributes"]["languages"]
    assert language["extensions"] == [".mstar"]
    configuration = json.loads((EXTENSION / "language-configuration.json").read_text("utf-8"))
    assert configuration["comments"] == {"lineComment": "#"}
    assert '"lsp"' in (EXTENSION / "src/extension.ts").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def installed() -> None:
    if shutil.which("npm") is None or not (EXTENSION / "node_modules").is_dir():
        pytest.skip("`npm ci` has not run in editors/vscode")


def run(*command: str) -> str:
    done = subprocess.run(command, cwd=EXTENSION, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.usefixtures("installed")
def test_the_tests_of_the_extension_pass() -> None:
    """Types, the bundle, and scopes by vscode-textmate itself."""
    run("npm", "test")


@pytest.mark.usefixtures("installed")
def test_in_shipped_specs_names_look_like_names_and_words_like_words() -> None:
    specs = sorted((ROOT / "specs").glob("*.mstar"))
    scopes = json.loads(run("node", "tests/tokens.cjs", *map(str, specs)))
    words = load_tables().words
    for path in specs:
        source = SourceFile(path=path.name, text=path.read_text(encoding="utf-8"))
        inspection = driver.inspect(source)
        assert inspection.tree is not None
        known = {name.span.start for name in index_of(inspection).meanings}
        written = {n.span.start for n in ast.descendants(inspection.tree) if type(n) is ast.Name}
        for line, tokens in enumerate(scopes[str(path)]):
            for start, end, scope in tokens:
                if scope.startswith(("comment", "string")):
                    continue
                base = source.line_starts[line] + start
                for found in re.finditer(r"[A-Za-z_]\w*", source.text[base : base + end - start]):
                    is_word = scope.startswith(("keyword", "storage", "constant.language"))
                    shown = (path.stem, line + 1, found[0], scope)
                    if base + found.start() in known:
                        assert not is_word, shown
                    elif base + found.start() not in written and found[0] in words:
                        assert is_word or scope.startswith(("support", "constant")), shown

"""Mistakes in deployment files, made in their text: the mistakes are of people, not of YAML."""

import re
from collections.abc import Callable, Iterator

from mutants import Mutant, changed, left_out, pick, typo

from mstarc.source import SourceFile, Span

Mistake = Callable[[SourceFile], Iterator[Mutant]]


def deployment_mutants(file: SourceFile, per_kind: int) -> list[Mutant]:
    """Up to `per_kind` mistakes of every kind, at places that are the same in every run."""
    found = []
    for name, mistake in MISTAKES.items():
        found += pick(list(mistake(file)), f"{file.path}/{name}", per_kind)
    return found


def _spans(file: SourceFile, pattern: str) -> Iterator[tuple[Span, re.Match[str]]]:
    """Every match of the first group, comments left out."""
    text = re.sub(r"#[^\n]*", lambda found: " " * len(found[0]), file.text)
    for found in re.finditer(pattern, text, re.MULTILINE):
        yield Span(path=file.path, start=found.start(1), end=found.end(1)), found


def _replaced(
    kind: str, pattern: str, new: str | Callable[[str], str], *, whole_file: bool = False
) -> Mistake:
    """Each match's first group replaced. `whole_file`: the mistake is about what is not there."""

    def mistake(file: SourceFile) -> Iterator[Mutant]:
        for span, found in _spans(file, pattern):
            text = new if isinstance(new, str) else new(found[1])
            mutant = changed(kind, file, span, text)
            if whole_file:
                lines = frozenset(range(1, mutant.text.count("\n") + 2))
                mutant = Mutant(kind=kind, what=mutant.what, text=mutant.text, lines=lines)
            if mutant.text != file.text:
                yield mutant

    return mistake


def _line_left_out(kind: str, pattern: str) -> Mistake:
    def mistake(file: SourceFile) -> Iterator[Mutant]:
        for span, _ in _spans(file, pattern):
            whole = Span(path=file.path, start=0, end=len(file.text))
            yield left_out(kind, file, span, whole)

    return mistake


def _doubled(kind: str, pattern: str, joint: str) -> Mistake:
    return _replaced(kind, pattern, lambda text: f"{text}{joint}{text}")


MISTAKES: dict[str, Mistake] = {
    "top-key": _replaced("key misspelt", r"^(\w+):", typo),
    "group-key": _replaced("key misspelt", r"^[ ]+-? ?(\w+):", typo),
    "model": _replaced("model misspelt", r"^model: (\w+)", typo),
    "other-model": _replaced("other model", r"^model: (\w+)", "another"),
    "node": _replaced("node misspelt", r"node_names: \[(?:[^\]]*, )?(\w+)\]", typo),
    "first-node": _replaced("node misspelt", r"node_names: \[(\w+)", typo),
    "walk": _replaced("walk misspelt", r"graph_walks: \[(\w+)", typo),
    "device": _replaced("device misspelt", r"^devices: (\S+)", lambda text: text[:-1]),
    "devices-word": _replaced("devices as a number", r"^devices: (\S+)", "2"),
    "fewer-devices": _replaced(
        "device too few", r"^devices: ((?:[2-9])x\w+)", lambda text: f"{int(text[0]) - 1}{text[1:]}"
    ),
    "rank-out": _replaced("rank that no device has", r"ranks: \[(\d+)\]", "9"),
    "rank-negative": _replaced("negative rank", r"ranks: \[(\d+)\]", "-1"),
    "rank-text": _replaced("rank as a text", r"ranks: \[(\d+)\]", "first"),
    "rank-float": _replaced("rank with a point", r"ranks: \[(\d+)\]", "0.5"),
    "rank-twice": _doubled("rank named twice", r"ranks: \[(\d+)\]", ", "),
    "ranks-empty": _replaced("no ranks", r"ranks: \[(\d+)\]", ""),
    "ranks-scalar": _replaced("ranks as a number", r"ranks: (\[\d+\])", lambda text: text[1:-1]),
    "two-ranks": _replaced("node on two ranks", r"ranks: \[(\d+)\]", "0, 1"),
    "node-twice": _doubled("node named twice", r"node_names: \[(\w+)", ", "),
    "node-missing": _replaced(
        "node left out", r"node_names: \[(?:[^\]]*?)(, \w+)\]", "", whole_file=True
    ),
    "nodes-empty": _replaced("no nodes", r"node_names: \[([^\]]*)\]", "", whole_file=True),
    "nodes-scalar": _replaced("nodes as a text", r"node_names: (\[[^\]]*\])", "lm"),
    "no-nodes-key": _line_left_out("`node_names` left out", r"^[ ]+- (node_names: [^\n]*)$"),
    "no-ranks-key": _line_left_out("`ranks` left out", r"^[ ]+(ranks: [^\n]*)$"),
    "no-groups": _line_left_out("groups left out", r"^(node_groups:(?:\n[ ]+[^\n]*)+)"),
    "no-model": _line_left_out("`model` left out", r"^(model: [^\n]*)$"),
    "tensor-odd": _replaced(
        "tp_size that does not divide", r"ranks: \[\d+\]()", "\n    tp_size: 3"
    ),
    "tensor-rigid": _replaced(
        "tp_size of what is not cut", r"ranks: (\[\d+\])", "[0, 1]\n    tp_size: 2"
    ),
    "length-zero": _replaced("length of nothing", r"^max_seq_len: (\d+)", "0"),
    "length-negative": _replaced("negative length", r"^max_seq_len: (\d+)", "-8192"),
    "length-text": _replaced("length as a text", r"^max_seq_len: (\d+)", "8k"),
    "length-short": _replaced("length too short", r"^max_seq_len: (\d+)", "64"),
    "requests-zero": _replaced("no requests", r"^max_concurrent_requests: (\d+)", "0"),
    "requests-many": _replaced(
        "more requests than fit", r"^max_concurrent_requests: (\d+)", "100000", whole_file=True
    ),
    "first-rank-out": _replaced("rank that no device has", r"ranks: \[(\d+), ", "9"),
    "same-rank": _replaced("rank named twice", r"ranks: \[0, (1)\]", "0"),
    "model-empty": _replaced("model left empty", r"^model:( \w+)", ""),
    "model-quote": _replaced("quote left open", r"^model: (\w+)", lambda text: f'"{text}'),
    "dash": _replaced("dash left out", r"^[ ]+(- )node_names", "  "),
    "group-colon": _replaced("colon left out", r"^[ ]+ranks(:) ", ""),
    "equals": _replaced("equals for a colon", r"^model(:) ", " ="),
    "key-twice": _doubled("key given twice", r"^(max_seq_len: \d+)$", "\n"),
    "indent": _replaced("wrong indentation", r"^([ ]+)ranks:", "  "),
    "tab": _replaced("tab", r"^([ ]+)ranks:", "\t"),
    "bracket": _replaced("bracket left out", r"node_names: \[[^\]]*(\])", ""),
    "colon": _replaced("colon left out", r"^\w+(:) ", ""),
    "foreign": _replaced("key of another system", r"^(max_seq_len): ", "context_length"),
    "unbuilt": _replaced("key that is not built", r"^(max_seq_len: \d+)$", "cpu_offload_pages: 4"),
    "cache": _replaced("cache setting misspelt", r"^(max_seq_len: \d+)$", "kv_cache: {pages: 4}"),
    "page": _replaced("page of nothing", r"^(max_seq_len: \d+)$", "kv_cache: {page_size: 0}"),
}
"""Every kind of mistake by a short name."""

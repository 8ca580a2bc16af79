"""A plan that is not as it was written is refused file by file."""

import hashlib
import json

import pytest

from mstarc.codegen.integrity import check_files, document_digest
from mstarc.diagnostics import DiagnosticSink
from mstarc.plan.abi import PLAN_ABI

BODY = {"machines.py": b"x = 1\n", "placements/cpu/rank0.py": b"y = 2\n"}
LISTED = {name: hashlib.sha256(content).hexdigest() for name, content in BODY.items()}
DOCUMENT = {"abi": PLAN_ABI, "model": "echo", "files": LISTED}


def sealed(**changed: object) -> bytes:
    """A plan.json whose digest was made before the changes."""
    return json.dumps({**DOCUMENT, "digest": document_digest(DOCUMENT), **changed}).encode()


PLAN = BODY | {"plan.json": sealed()}


def codes(files: dict[str, bytes]) -> list[tuple[str, str]]:
    sink = DiagnosticSink()
    check_files("plan", files, sink)
    return [(found.code, found.primary.span.path) for found in sink.diagnostics]


def test_a_plan_as_written_has_no_findings() -> None:
    assert codes(PLAN) == []


def test_each_way_to_differ_has_its_code() -> None:
    changed = PLAN | {"machines.py": b"x = 2\n", "notes.txt": b""}
    del changed["placements/cpu/rank0.py"]
    assert codes(changed) == [
        ("MS0801", "plan/machines.py"),
        ("MS0802", "plan/notes.txt"),
        ("MS0803", "plan/placements/cpu/rank0.py"),
    ]


def test_an_edit_of_the_list_itself_is_seen() -> None:
    assert codes(PLAN | {"plan.json": sealed(model="other")}) == [("MS0801", "plan/plan.json")]
    assert codes(PLAN | {"plan.json": json.dumps(DOCUMENT).encode()}) == [
        ("MS0801", "plan/plan.json")
    ]


def test_a_plan_of_another_abi_is_not_looked_into() -> None:
    content = sealed(abi=PLAN_ABI + 1)
    assert codes({"plan.json": content}) == [("MS0804", "plan")]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"files": []}', b'{"files": {"a": 1}}', b"\xff"]
)
def test_what_lists_no_files_is_no_plan(content: bytes) -> None:
    assert codes(BODY | {"plan.json": content}) == [("MS0008", "plan")]


def test_a_folder_without_a_list_is_no_plan() -> None:
    assert codes(BODY) == [("MS0008", "plan")]

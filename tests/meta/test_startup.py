"""What a command may load: starting up is a feature, and the compiler never needs torch."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.golden import ROOT

RUNTIME_LIBRARIES = {"torch", "zmq", "transformers", "safetensors", "msgspec", "flashinfer"}


def modules_after(arguments: list[str], folder: Path) -> set[str]:
    """The top-level modules that a fresh process holds after running `mstarc` with `arguments`."""
    code = (
        "import json, sys\n"
        "from mstarc.cli.main import run_command\n"
        f"status = run_command({arguments!r})\n"
        "names = sorted({name.partition('.')[0] for name in sys.modules})\n"
        "print(json.dumps([status, names]), file=sys.stderr)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    status, names = json.loads(process.stderr.splitlines()[-1])
    assert status == 0, process.stdout
    return set(names)


def test_version_loads_neither_lark_nor_jinja2(tmp_path: Path) -> None:
    loaded = modules_after(["--version"], tmp_path)
    heavy = {"lark", "jinja2", "yaml", "networkx", "rich", "numpy"}
    assert not loaded & (heavy | RUNTIME_LIBRARIES)


def test_compile_loads_no_library_of_the_runtime(tmp_path: Path) -> None:
    spec = ROOT / "specs" / "orpheus.mstar"
    loaded = modules_after(["compile", str(spec), "-o", "plan"], tmp_path)
    assert (tmp_path / "plan" / "plan.json").is_file()
    assert not loaded & (RUNTIME_LIBRARIES | {"mstarc_runtime"})

"""The committed plans of the shipped specs: `make generate` writes them, `--check` compares.

A plan is compiled in memory and held against `generated/<name>/`, which must be exactly that.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mstarc import driver
from mstarc.codegen.write import write_plan
from mstarc.diagnostics.render import FORMATS, Report
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from tests.support.golden import ROOT, difference

GENERATED = ROOT / "generated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """A plan that is committed, and what it is compiled from (paths from the root)."""

    name: str
    spec: str
    placements: tuple[str, ...] = ()
    deployments: tuple[str, ...] = ()
    sizes: str | None = None


SHIPPED: tuple[Shipped, ...] = (
    Shipped(name="orpheus", spec="specs/orpheus.mstar", placements=("cpu", "2xcpu")),
    Shipped(
        name="orpheus_tiny",
        spec="specs/orpheus.mstar",
        placements=("cpu", "2xcpu"),
        sizes="specs/tiny/orpheus.yaml",
    ),
    Shipped(
        name="voice_chat",
        spec="specs/voice_chat.mstar",
        placements=("cpu", "2xcpu", "3xcpu"),
    ),
    Shipped(
        name="qwen3_omni",
        spec="specs/qwen3_omni.mstar",
        deployments=("specs/deployments/qwen3omni_2gpu.yaml",),
    ),
    Shipped(name="bagel", spec="specs/bagel.mstar", placements=("1xH200",)),
    Shipped(name="vjepa2", spec="specs/vjepa2.mstar", placements=("1xH200",)),
    Shipped(name="vjepa2_ac", spec="specs/vjepa2_ac.mstar", placements=("1xH200",)),
    Shipped(name="pi05", spec="specs/pi05.mstar", placements=("1xH200",)),
    Shipped(
        name="orpheus_layouts",
        spec="specs/orpheus.mstar",
        deployments=(
            "specs/deployments/orpheus_2replicas.yaml",
            "specs/deployments/orpheus_pd_2cpu.yaml",
            "specs/deployments/orpheus_ranks_2_3.yaml",
            "specs/deployments/orpheus_tp2_2cpu.yaml",
        ),
        sizes="specs/tiny/orpheus.yaml",
    ),
    Shipped(
        name="bagel_apart",
        spec="specs/bagel.mstar",
        deployments=("specs/deployments/bagel_cfg_parallel_3cpu.yaml",),
        sizes="specs/tiny/bagel.yaml",
    ),
)


def compiled(shipped: Shipped) -> Mapping[str, str]:
    """The files of a plan. Raises `ValueError` with the findings when it does not compile."""
    options = CompileOptions(
        placements=shipped.placements,
        deployments=tuple(_source(path) for path in shipped.deployments),
        sizes=None if shipped.sizes is None else _source(shipped.sizes),
    )
    outcome = driver.compile_spec(_source(shipped.spec), options)
    if outcome.files is None:
        report = Report(
            diagnostics=outcome.diagnostics,
            sources=outcome.sources,
            attempt=f"compile `{shipped.spec}`",
            version="0",
        )
        raise ValueError(FORMATS["human"](report))
    return outcome.files


def drift(shipped: Shipped) -> Iterator[str]:
    """What differs between a committed plan and the compiled one, a text for each file."""
    folder = GENERATED / shipped.name
    files = compiled(shipped)
    committed = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    for name in sorted(files.keys() | committed.keys()):
        shown = f"generated/{shipped.name}/{name}"
        if name not in files:
            yield f"{shown} is left over"
        elif name not in committed:
            yield f"{shown} is missing"
        elif (text := committed[name].read_text(encoding="utf-8")) != files[name]:
            yield difference(text, files[name], shown, "make generate")


def orphans() -> list[str]:
    """Folders of `generated/` that belong to no shipped plan."""
    names = {shipped.name for shipped in SHIPPED}
    return sorted(path.name for path in GENERATED.iterdir() if path.name not in names)


def _source(path: str) -> SourceFile:
    return SourceFile(path=path, text=(ROOT / path).read_text(encoding="utf-8"))


def main(arguments: list[str]) -> int:
    """Write every committed plan, or with `--check` report what differs (exit code 1)."""
    if arguments == ["--check"]:
        found = [text for shipped in SHIPPED for text in drift(shipped)]
        found += [f"generated/{name} belongs to no shipped plan" for name in orphans()]
        print("\n\n".join(found) if found else f"generated/: {len(SHIPPED)} plans are as compiled")
        return 1 if found else 0
    for shipped in SHIPPED:
        files = compiled(shipped)
        write_plan(files, Path(GENERATED / shipped.name))
        print(f"generated/{shipped.name}: {len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

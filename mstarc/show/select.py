"""A part of a picture: one machine, or one walk."""

from dataclasses import replace

from mstarc.diagnostics import Diagnostic, Label, did_you_mean
from mstarc.ir.graph import Program
from mstarc.show.blocks import picture, walk_block
from mstarc.show.picture import Block, Picture
from mstarc.source import Span


def show_names(program: Program) -> tuple[str, ...]:
    """What may be shown by itself: machines and walks."""
    machines = [machine.name for machine in program.machines]
    return (*machines, *(walk.name for walk in program.walks if walk.name not in machines))


def selected(program: Program, name: str | None) -> Picture | Diagnostic:
    """The picture of the model, of a machine or of a walk; or that there is none of this name."""
    whole = picture(program)
    if name is None:
        return whole
    for block in whole.blocks:
        if block.name == name:
            return _part(whole, block)
    for walk in program.walks:
        if walk.name == name:
            return _part(whole, walk_block(program, walk))
    names = show_names(program)
    nearest = did_you_mean(name, names)
    listed = " or ".join(f"`{near}`" for near in nearest)
    every = ", ".join(f"`{known}`" for known in names)
    return Diagnostic(
        code="MS0001",
        message=f"`{program.model}` has no walk and no machine `{name}`",
        primary=Label(span=Span(path="", start=0, end=0)),
        helps=(f"did you mean {listed}?",) if nearest else (f"there are {every}",),
    )


def _part(whole: Picture, block: Block) -> Picture:
    """The picture of one block, with the nodes and streams that it names."""
    inner = list(_all_blocks(block))
    nodes = {b.name.partition(".")[0] for b in inner if b.kind == "call"}
    nodes |= {b.name for b in inner if b.kind == "context"}
    streams = {b.name for b in inner if b.kind in ("send", "pull", "mark")}
    streams |= {name for b in inner if b.kind == "each" for name in b.name.split(", ")}
    outputs = {b.name for b in inner if b.kind == "emit"}
    return replace(
        whole,
        blocks=(block,),
        nodes=tuple(node for node in whole.nodes if node.name in nodes),
        channels=tuple(channel for channel in whole.channels if channel.name in streams),
        fields=tuple(f for f in whole.fields if f.kind == "out" and f.name in outputs),
    )


def _all_blocks(block: Block) -> list[Block]:
    return [block, *(found for inner in block.blocks for found in _all_blocks(inner))]

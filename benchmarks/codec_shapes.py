"""How SNAC's kernels are best cut into blocks on a GPU: each shape timed, kernel by kernel.

Every candidate shapes all products of a stack alike; a profile tells what each kernel of the chain
took. The last lines give each kernel its best candidates. Candidates are compiled side by side, a
process each.

    python benchmarks/codec_shapes.py [--batches 16 4 1] [--candidates 0 1 2 …]
"""

import argparse
import subprocess
import sys
from dataclasses import replace
from functools import partial

import torch
from codec import EMITTED, Call, captured, draw_codes, make_decoder, milliseconds
from torch.profiler import ProfilerActivity, profile

from mstarc_runtime.kernels.codec_stack import CodecStack, Shapes, Tile

KERNELS = ("latent", "product", "depthwise", "samples")
REPLAYS = 3
# Rows, columns, inner numbers, warps and stages of a product; rows of a depthwise convolution.
CANDIDATES = (
    (64, 64, 64, 4, 3, 16),
    (64, 64, 64, 4, 4, 8),
    (64, 128, 64, 4, 3, 32),
    (64, 128, 64, 4, 4, 64),
    (128, 64, 64, 4, 3, 4),
    (128, 128, 64, 8, 3, 16),
    (64, 128, 64, 8, 3, 8),
    (64, 64, 128, 4, 3, 32),
    (32, 64, 64, 4, 4, 16),
    (32, 32, 64, 4, 4, 8),
    (64, 32, 64, 4, 4, 16),
    (64, 256, 64, 8, 3, 16),
    (32, 128, 64, 4, 3, 8),
    (64, 64, 32, 4, 4, 16),
)


def shapes_of(candidate: int) -> Shapes:
    rows, columns, inner, warps, stages, depthwise = CANDIDATES[candidate]
    tile = Tile(rows=rows, columns=columns, inner=inner, warps=warps, stages=stages)
    return Shapes(rows=tile, pairs=tile, mixed=replace(tile, stages=3), depthwise=depthwise)


def compile_all(candidates: list[int], batches: list[int]) -> list[int]:
    """Those that compile: each in a process, into the cache that all share."""
    words = ["--batches", *map(str, batches), "--compile"]
    begun = [
        (number, subprocess.Popen([sys.executable, __file__, *words, str(number)]))
        for number in candidates
    ]
    return [number for number, process in begun if process.wait() == 0]


def kernel_times(replay: Call) -> list[tuple[str, float]]:
    """Name and least µs of each kernel of a chain, in its order."""
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(REPLAYS):
            replay()
        torch.cuda.synchronize()
    events = sorted(found.events(), key=lambda event: event.time_range.start)
    chain = [(e.name, float(e.time_range.elapsed_us())) for e in events if e.name in KERNELS]
    count = len(chain) // REPLAYS
    return [
        (chain[at][0], min(chain[at + run * count][1] for run in range(REPLAYS)))
        for at in range(count)
    ]


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="+", default=[16, 4, 1])
    parser.add_argument("--candidates", type=int, nargs="+", default=list(range(len(CANDIDATES))))
    parser.add_argument("--compile", type=int, help="one candidate, and nothing else")
    options = parser.parse_args()
    device = torch.device("cuda", 0)
    if options.compile is not None:
        stack = CodecStack(make_decoder(device), shapes=shapes_of(options.compile))
        for batch in options.batches:
            stack(draw_codes(batch, device), EMITTED)
        torch.cuda.synchronize()
        return
    able = compile_all(options.candidates, options.batches)
    decoder = make_decoder(device)
    for batch in options.batches:
        codes = draw_codes(batch, device)
        found: dict[int, list[tuple[str, float]]] = {}
        for number in able:
            stack = CodecStack(decoder, shapes=shapes_of(number))
            replay, _ = captured(partial(stack, codes, EMITTED))
            found[number] = kernel_times(replay)
            total, whole = sum(spent for _, spent in found[number]), milliseconds(replay) * 1e3
            print(
                f"batch {batch} {CANDIDATES[number]}: {total:.0f} µs, graph {whole:.0f}", flush=True
            )
        for at, (name, _) in enumerate(found[able[0]] if able else []):
            spent = sorted((found[number][at][1], number) for number in able)
            best = ", ".join(f"{CANDIDATES[number]} {most:.1f}" for most, number in spent[:3])
            print(f"batch {batch} kernel {at:>2} {name:<9}: {best}", flush=True)


if __name__ == "__main__":
    main()

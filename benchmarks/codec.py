"""SNAC's decoder on a GPU: ms for a number of windows, and how near float32 it comes.

The decoder of Orpheus at its public size, with random weights: 28 codes a window, of which the
sound of the second frame is made. `torch` is plain torch in float32 (with `tf32`: its convolutions
on the tensor cores, as torch has it by default), `whole` makes all four frames. `kernels` is what
the runtime runs, with products in the precision named; `chained`, each starts while the one before
it ends. Error: the greatest difference from plain float32 (torch, call by call, no tensor cores),
and the ratio of the sound's power to that of the difference.

    python benchmarks/codec.py [--batches 1 4 16 32] [--kernels] [--json]
"""

import argparse
import json
import math
import statistics
from collections.abc import Callable
from typing import Any

import torch
from peers.orpheus_checkpoint import CODEC
from torch import Tensor

from mstarc_runtime.kernels.codec_stack import FULL, HALF, CodecStack, Precision
from mstarc_runtime.layers.span import Span
from mstarc_runtime.models.snac import Decoder

EMITTED = Span(begin=2048, end=4096, length=8192)
WHOLE = Span(begin=0, end=8192, length=8192)
RUNS = 30

Call = Callable[[], Tensor]


def make_decoder(device: torch.device) -> Decoder:
    """Random weights that keep the sound between a whisper and the clipping of tanh."""
    decoder = Decoder(CODEC, dtype=torch.float32, device=device)
    draw = torch.Generator(device).manual_seed(0)
    for name, parameter in decoder.named_parameters():
        if name.endswith("alpha"):
            parameter.uniform_(0.5, 1.5, generator=draw)
        elif name.endswith("scale"):
            parameter.uniform_(0.35, 0.7, generator=draw)
        else:
            parameter.normal_(0.0, 0.1 if name.endswith("bias") else 1.0, generator=draw)
    return decoder


def draw_codes(batch: int, device: torch.device) -> Tensor:
    draw = torch.Generator(device).manual_seed(batch)
    return torch.randint(0, 4096, (batch, 28), generator=draw, device=device)


def with_tensor_cores(call: Call, *, on: bool) -> Call:
    def called() -> Tensor:
        torch.backends.cudnn.allow_tf32 = on
        return call()

    return called


def captured(call: Call) -> tuple[Call, torch.cuda.CUDAGraph]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()

    def replay() -> Tensor:
        graph.replay()
        return out

    return replay, graph


def milliseconds(call: Call) -> float:
    """Median of runs by themselves, the device's caches full of other things before each."""
    other = torch.empty(1 << 26, device="cuda")
    spent = []
    for _ in range(RUNS):
        other.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        spent.append(begin.elapsed_time(end))
    return float(statistics.median(spent))


def kernels_of(call: Call) -> list[tuple[str, int, float]]:
    """Name, launches and µs in all of each kernel of a call."""
    from torch.profiler import ProfilerActivity, profile

    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        call()
        torch.cuda.synchronize()
    rows: dict[str, list[float]] = {}
    for event in found.events():
        if event.device_type.name == "CUDA":
            rows.setdefault(event.name[:70], []).append(event.time_range.elapsed_us())
    listed = [(name, len(times), sum(times)) for name, times in rows.items()]
    return sorted(listed, key=lambda row: -row[2])


def error_of(found: Tensor, right: Tensor) -> tuple[float, float]:
    """The greatest difference, and dB between the sound and the difference."""
    difference = (found - right).double()
    power = right.double().square().mean() / difference.square().mean().clamp_min(1e-30)
    return float(difference.abs().max()), 10 * math.log10(float(power))


def variants(decoder: Decoder, batch: int, device: torch.device) -> dict[str, Call]:
    codes = draw_codes(batch, device)

    def plain(span: Span) -> Call:
        return lambda: decoder.plain_samples(codes, span)

    def kernels(stack: CodecStack, span: Span = EMITTED) -> Call:
        return lambda: stack(codes, span)

    precisions = {
        "float16": HALF,
        "float32": FULL,
        "bfloat16": Precision(dtype=torch.bfloat16),
    }
    made: dict[str, Call] = {
        "torch": with_tensor_cores(plain(EMITTED), on=False),
        "torch whole": with_tensor_cores(plain(WHOLE), on=False),
        "torch tf32": with_tensor_cores(plain(EMITTED), on=True),
    }
    for name, precision in precisions.items():
        made[f"kernels {name}"] = kernels(CodecStack(decoder, precision))
    made["kernels chained"] = kernels(CodecStack(decoder, chained=True))
    made["kernels float16 whole"] = kernels(CodecStack(decoder), WHOLE)
    return made


def measure(
    decoder: Decoder, batch: int, device: torch.device, *, with_kernels: bool
) -> list[dict[str, Any]]:
    found = []
    made = variants(decoder, batch, device)
    right = made["torch"]().clone()
    for name, call in made.items():
        sound = call().clone()
        if sound.shape != right.shape:
            sound = sound[:, EMITTED.begin : EMITTED.end]
        most, decibels = error_of(sound, right)
        replay, _ = captured(call)
        again = replay()
        graph_is_equal = bool((again[:, : sound.shape[1]] == call()[:, : sound.shape[1]]).all())
        launches = kernels_of(replay)
        row = {
            "batch": batch,
            "variant": name,
            "eager_ms": milliseconds(call),
            "graph_ms": milliseconds(replay),
            "kernels": sum(count for _, count, _ in launches),
            "kernel_ms": sum(spent for *_, spent in launches) / 1e3,
            "error": most,
            "decibels": decibels,
            "graph_equals_eager": graph_is_equal,
        }
        found.append(row)
        print(
            f"{batch:>5} {name:<22} {row['eager_ms']:>8.3f} {row['graph_ms']:>8.3f} "
            f"{row['kernels']:>7} {row['kernel_ms']:>9.3f} {most:>9.1e} {decibels:>6.1f} "
            f"{'same' if graph_is_equal else 'OTHER'}",
            flush=True,
        )
        if with_kernels and name == "kernels float16":
            for kernel, count, spent in launches[:12]:
                print(f"{'':>11} {count:>3} x {spent:>8.1f} µs  {kernel}", flush=True)
    return found


def rows_alone(decoder: Decoder, device: torch.device) -> None:
    """Says whether a window has the same bytes in any company of a batch."""
    stack = CodecStack(decoder)
    numbers = draw_codes(16, device)
    whole = stack(numbers, EMITTED)
    order = torch.randperm(16, device=device)
    shuffled = stack(numbers[order], EMITTED)
    print("a window among others, in its batch size:", torch.equal(shuffled, whole[order]))
    for batch in (1, 4):
        parts = stack(numbers[:batch], EMITTED)
        most, decibels = error_of(parts, whole[:batch])
        print(f"in batch {batch} against 16: most {most:.1e}, {decibels:.0f} dB")
    cropped = stack(numbers, EMITTED)
    made = stack(numbers, WHOLE)[:, EMITTED.begin : EMITTED.end]
    most, decibels = error_of(cropped, made)
    print(
        f"the second frame alone against all four: equal {torch.equal(cropped, made)}, {most:.1e}"
    )


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16, 32])
    parser.add_argument("--kernels", action="store_true", help="also the kernels of some variants")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    device = torch.device("cuda", 0)
    torch.backends.cuda.matmul.allow_tf32 = False
    decoder = make_decoder(device)
    rows_alone(decoder, device)
    print(
        f"{'batch':>5} {'variant':<22} {'eager ms':>8} {'graph ms':>8} {'kernels':>7} "
        f"{'alone ms':>9} {'error':>9} {'dB':>6} graph/eager"
    )
    rows = []
    for batch in options.batches:
        rows += measure(decoder, batch, device, with_kernels=options.kernels)
    if options.json:
        print(json.dumps({"gpu": torch.cuda.get_device_name(device), "rows": rows}))


if __name__ == "__main__":
    main()

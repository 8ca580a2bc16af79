"""How a decoding step's kernels are best cut, measured on the GPU at hand.

Each product of a Llama 3.2 3B sized decoder, and of Qwen3-Omni's Thinker, Talker and predictor
(`--only thinker.qkv talker.out predictor.gate ...`), runs in a chain of its own kind over weights
that no cache can hold, captured as one CUDA graph; so does the attention of a layer, over pages of
its own a layer. Beside each time is the share of the memory bus that it reaches. What is best here
is what `mstarc_runtime/kernels/shapes.py` and `decode_attention.py` hold for an H200.

    python benchmarks/decode_kernels.py [--batches 1 16 32] [--only qkv o] [--search]

Without `--search` the shapes in use are measured alone. Compiling a search takes a minute on 12
processors.
"""

import argparse
import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context

import torch
from decode_attention_cuts import (
    CONTEXT,
    HEAD_DIM,
    KV_HEADS,
    SHARED_BYTES,
    Attention,
    attention_cuts,
)

from mstarc_runtime.kernels.kinds import GATE, LOGITS, PROJECT, RESIDUAL
from mstarc_runtime.kernels.sampling import Draw
from mstarc_runtime.kernels.shapes import shape_of
from mstarc_runtime.kernels.skinny import Product, Shape

WIDTH, VOCAB = 3072, 156_940
READ_BYTES_A_SECOND = 4.3e12
COMPILERS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """`inner` columns, `outer` outputs."""

    kind: object
    inner: int
    outer: int

    @property
    def rows(self) -> int:
        return self.outer * (2 if self.kind is GATE else 1)

    @property
    def floor_us(self) -> float:
        return self.rows * self.inner * 2 / READ_BYTES_A_SECOND * 1e6


MATRICES = {
    "qkv": Matrix(kind=PROJECT, inner=WIDTH, outer=5120),
    "o": Matrix(kind=RESIDUAL, inner=3072, outer=WIDTH),
    "gate": Matrix(kind=GATE, inner=WIDTH, outer=8192),
    "down": Matrix(kind=RESIDUAL, inner=8192, outer=WIDTH),
    "head": Matrix(kind=LOGITS, inner=WIDTH, outer=VOCAB),
    "thinker.qkv": Matrix(kind=PROJECT, inner=2048, outer=5120),
    "thinker.out": Matrix(kind=RESIDUAL, inner=4096, outer=2048),
    "thinker.head": Matrix(kind=LOGITS, inner=2048, outer=152_064),
    "talker.qkv": Matrix(kind=PROJECT, inner=1024, outer=2560),
    "talker.out": Matrix(kind=RESIDUAL, inner=2048, outer=1024),
    "predictor.qkv": Matrix(kind=PROJECT, inner=1024, outer=4096),
    "predictor.gate": Matrix(kind=GATE, inner=1024, outer=3072),
    "predictor.down": Matrix(kind=RESIDUAL, inner=3072, outer=1024),
    "predictor.head": Matrix(kind=LOGITS, inner=1024, outer=2048),
}
LLAMA = ("qkv", "o", "gate", "down", "head")


def cuts(name: str, batch: int, *, search: int) -> list[Shape]:
    """The cut in use, then `search` others, chosen at random where there are more."""
    matrix = MATRICES[name]
    used = shape_of(matrix.kind, inner=matrix.inner, outer=matrix.rows, batch=batch)
    assert used is not None, name
    found = [used]
    if search:
        others = [cut for cut in _searched(matrix, batch) if cut not in found]
        found += random.Random(batch).sample(others, min(search, len(others)))
    return found


def _searched(matrix: Matrix, batch: int) -> Iterator[Shape]:
    if batch == 1:
        for rows, columns, warps in itertools.product((1, 2, 4, 8), (512, 1024, 2048), (1, 2, 4)):
            if matrix.inner % columns == 0 and rows * columns in range(1024, 16385):
                yield Shape(rows=rows, columns=columns, warps=warps)
        return
    if batch <= 4:
        for rows, columns, held, warps in itertools.product(
            (1, 2, 4, 8, 16), (256, 512, 1024), (1, 2, 3, 4), (1, 2, 4)
        ):
            a_pass = rows * (2 if matrix.kind is GATE else 1) * columns
            shape = Shape(rows=rows, columns=columns, warps=warps, held=held)
            if matrix.inner % shape.step == 0 and a_pass // (32 * warps) in (16, 32, 64):
                yield shape
    if batch <= 16 and matrix.inner <= 4096:
        for rows, columns, held, warps in itertools.product(
            (8, 16, 32), (64, 128), (1, 2, 3, 4), (4, 8)
        ):
            shape = Shape(rows=rows, columns=columns, warps=warps, held=held, spread=True)
            if matrix.inner % shape.step == 0 and (rows > 8) == (matrix.kind is not GATE):
                yield shape
    is_large = matrix.rows >= 16384
    for rows, columns, split, stages, warps in itertools.product(
        (16, 32, 64, 128), (64, 128, 256, 512), (1, 2, 3, 4), (3, 4, 6), (1, 2, 4, 8)
    ):
        span = matrix.inner // split
        tiles = -(-matrix.outer // rows)
        a_row = rows * (2 if matrix.kind is GATE else 1) + max(16, batch)
        shared = a_row * columns * 2 * stages
        blocks = tiles * split
        if matrix.inner % (split * columns) or span // columns < 3 or shared > SHARED_BYTES:
            continue
        if (is_large and split > 1) or blocks < 90 or shared * min(blocks, 264) / 132 < 40_000:
            continue
        if warps > max(1, rows // 16) or (rows == 128 and warps < 4) or (rows == 64 and warps < 2):
            continue
        if rows == 16 and (columns < 128 or is_large):
            continue
        yield Shape(rows=rows, columns=columns, split=split, stages=stages, warps=warps)


class Rows:
    """What a product of `batch` rows reads and writes beside its weights."""

    def __init__(self, batch: int) -> None:
        kw = {"device": "cuda"}
        self.h = torch.randn(batch * 8192, **kw).bfloat16()
        self.residual = torch.randn(batch * WIDTH, **kw)
        self.gain = torch.ones(WIDTH, **kw).bfloat16()
        before = shape_of(RESIDUAL, inner=WIDTH, outer=WIDTH, batch=batch)
        assert before is not None
        self.squares = torch.rand(WIDTH // before.rows, batch, **kw)
        self.squares_out = torch.zeros(4096, batch, **kw)
        self.out = torch.empty(batch * VOCAB, dtype=torch.bfloat16, **kw)
        self.logits = torch.empty(batch * VOCAB, **kw)

    def through(self, product: Product) -> None:
        batch, inner, outer = product.batch, product.inner, product.count
        h = self.h[: batch * inner].view(batch, inner)
        out = self.out[: batch * outer].view(batch, outer)
        if product.kind is LOGITS:
            logits = self.logits[: batch * outer].view(batch, outer)
            product(h, logits, squares=self.squares, eps=1e-5)
        elif product.kind is RESIDUAL:
            residual = self.residual[: batch * outer].view(batch, outer)
            product(h, out, residual=residual, gain=self.gain, squares_out=self.squares_out)
        else:
            product(h, out, squares=self.squares, eps=1e-5)


def product_of(name: str, weight: torch.Tensor, batch: int, shape: Shape) -> Product:
    return Product(
        weight,
        kind=MATRICES[name].kind,
        batch=batch,
        shape=shape,
        chained=True,
    )


Job = tuple[str, int, int, int]
"""What, its batch, which cut, of how many."""


def compile_one(job: Job) -> str | None:
    """Fills the cache of compiled kernels; what went wrong, if anything did."""
    name, batch, number, search = job
    try:
        if name == "attention":
            Attention(batch).through(attention_cuts(batch, search=search)[number])
        else:
            matrix = MATRICES[name]
            weight = torch.zeros(matrix.rows, matrix.inner, device="cuda", dtype=torch.bfloat16)
            cut = cuts(name, batch, search=search)[number]
            Rows(batch).through(product_of(name, weight, batch, cut))
        torch.cuda.synchronize()
    except Exception as error:
        return f"{job}: {error!r}"[:200]
    return None


def graph_us(run: Callable[[], object], repeats: int = 7) -> float:
    """µs of `run` captured once and replayed, the median."""
    stream = torch.cuda.Stream()
    times = []
    # What `run` reads may still be in the making on the stream that is left here.
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        run()
        run()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            run()
        for _ in range(repeats + 2):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record(stream)
            graph.replay()
            end.record(stream)
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
    return statistics.median(times[2:]) * 1e3


def measure_products(name: str, batches: list[int], *, search: int) -> dict[int, Shape]:
    """Prints what was found; the best cut of each number of rows."""
    matrix = MATRICES[name]
    a_copy = matrix.rows * matrix.inner * 2
    copies = max(2, int(0.6e9 / a_copy) + 1)
    weights = [
        torch.randn(matrix.rows, matrix.inner, device="cuda", dtype=torch.bfloat16).mul_(0.02)
        for _ in range(copies)
    ]
    best = {}
    for batch in batches:
        rows, found = Rows(batch), []
        for number, cut in enumerate(cuts(name, batch, search=search)):
            try:
                chain = [product_of(name, weight, batch, cut) for weight in weights]
                us = (
                    graph_us(lambda chain=chain, rows=rows: [rows.through(one) for one in chain])
                    / copies
                )
            except Exception as error:
                print(f"{name} {batch} {cut}: {error!r}"[:160])
                continue
            found.append((us, number, cut))
        print(f"{name}, batch {batch}: floor {matrix.floor_us:.1f} µs")
        in_use = [one for one in found if one[1] == 0]
        for us, number, shape in (
            in_use + sorted(found, key=lambda one: one[0])[: 6 if search else 0]
        ):
            print(
                f"  {'in use' if number == 0 else '':6} {us:7.2f} µs {matrix.floor_us / us:.2f}"
                f"  rows {shape.rows} columns {shape.columns} split {shape.split}"
                f" stages {shape.stages} warps {shape.warps}"
                f"{f' held {shape.held}' if shape.held else ''}{' spread' if shape.spread else ''}",
                flush=True,
            )
        best[batch] = min(found, key=lambda one: one[0])[2]
    return best


def measure_attention(batch: int, *, search: int) -> dict[str, int]:
    """Prints what was found; the best cut."""
    floor = batch * CONTEXT * KV_HEADS * HEAD_DIM * 4 / READ_BYTES_A_SECOND * 1e6
    attention, found = Attention(batch), []
    for number, cut in enumerate(attention_cuts(batch, search=search)):
        try:
            us = graph_us(attention.through(cut)) / Attention.LAYERS
            found.append((us, number, cut))
        except Exception as error:
            print(f"attention {batch} {cut}: {error!r}"[:160])
    print(f"attention, batch {batch}: floor {floor:.1f} µs")
    best = sorted(found, key=lambda one: one[0])[: 6 if search else 0]
    for us, number, cut in found[:1] + best:
        in_use = "in use" if number == 0 else ""
        print(f"  {in_use:6} {us:7.2f} µs {floor / us:.2f}  {cut}", flush=True)
    return min(found, key=lambda one: one[0])[2]


def measure_sampling(batch: int) -> None:
    """The sampler over logits of one sharp row, then over flat ones; and its kernels."""
    kw = {"device": "cuda"}
    slots = torch.arange(batch, **kw)
    settings = torch.ones(3, batch + 1, **kw)
    settings[0], settings[1], settings[2] = 0.6, 0.8, 1.3
    draw = Draw(
        batch=batch, vocab=VOCAB, count=batch + 1, stream=0, chained=True,
        device=torch.device("cuda"),
    )  # fmt: skip
    given = {
        "settings": settings,
        "slots": slots,
        "seeds": torch.arange(batch + 1, **kw),
        "draws": torch.zeros(batch + 1, dtype=torch.int64, **kw),
        "seen": torch.zeros(batch + 1, VOCAB, dtype=torch.int8, **kw),
        "tokens": torch.zeros(batch, dtype=torch.int64, **kw),
    }
    for name, spread in (("spread 3", 3.0), ("spread 0.5", 0.5)):
        logits = torch.randn(batch, VOCAB, **kw) * spread
        us = graph_us(lambda logits=logits: [draw(logits, **given) for _ in range(10)]) / 10
        print(f"sampling, batch {batch}, logits of {name}: {us:.1f} µs", flush=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(10):
            draw(logits, **given)
        torch.cuda.synchronize()
    for event in profile.key_averages():
        print(f"  {event.key[:40]:40} {event.device_time:7.2f} µs")


def compile_all(names: list[str], batches: list[int], search: int, has_attention: bool) -> None:
    """Compiles the cuts of a search on many processors."""
    jobs: list[Job] = []
    for batch in batches:
        for name in names:
            count = len(cuts(name, batch, search=search))
            jobs += [(name, batch, number, search) for number in range(count)]
        if has_attention:
            count = len(attention_cuts(batch, search=search))
            jobs += [("attention", batch, number, search) for number in range(count)]
    begin = time.monotonic()
    with get_context("spawn").Pool(COMPILERS) as pool:
        for problem in pool.imap_unordered(compile_one, jobs, chunksize=4):
            if problem:
                print(problem)
    print(f"{len(jobs)} cuts compiled in {time.monotonic() - begin:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 16, 32])
    parser.add_argument("--only", nargs="+", default=[*LLAMA, "attention", "sampling"])
    parser.add_argument("--search", type=int, default=0, help="so many other cuts as well")
    options = parser.parse_args()
    names = [name for name in MATRICES if name in options.only]
    if options.search:
        compile_all(names, options.batches, options.search, "attention" in options.only)
    for name in names:
        measure_products(name, options.batches, search=options.search)
    for batch in options.batches:
        if "attention" in options.only:
            measure_attention(batch, search=options.search)
        if "sampling" in options.only:
            measure_sampling(batch)


if __name__ == "__main__":
    main()

"""What it costs to join rows of two or more GPUs behind a product, in a captured chain.

    python benchmarks/joins.py --ranks 2

A chain is 48 products, each followed by a join of rows [B, W] of float32; µs a join are the chain's
time less that of the products alone. `direct` is our kernel (`late`: what comes behind it is let in
when all is here), `nccl` the library and the kernel behind it. Before that replays of a chain with
other numbers in each are compared with the same sums made by one GPU, to the bit, while the ranks
are held up at random.
"""

import argparse
import json
import multiprocessing
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

LAYERS = 48
INNER = 2048


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--replays", type=int, default=10_000)
    parser.add_argument("--widths", type=int, nargs="+", default=[2048, 3072])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 8, 32])
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        given = [(index, Path(folder), options) for index in range(options.ranks)]
        ranks = [context.Process(target=rank, args=one) for one in given]
        for one in ranks:
            one.start()
        for one in ranks:
            one.join()
    if any(one.exitcode for one in ranks):
        raise SystemExit(1)


def rank(index: int, folder: Path, options: argparse.Namespace) -> None:
    """One rank's process."""
    from mstarc_runtime.transport.collectives import ProcessGroup

    torch.set_grad_enabled(False)
    device = torch.device("cuda", index)
    torch.cuda.set_device(device)

    def say(what: dict[str, Any]) -> None:
        if index == 0:
            print(json.dumps(what), flush=True)

    def group(name: str, is_direct: bool) -> ProcessGroup:
        return ProcessGroup(
            folder,
            name,
            index=index,
            count=options.ranks,
            device=device,
            is_direct=is_direct,
            say=lambda text: say({name: text}),
        )

    groups = {"nccl": group("nccl", False), "direct": group("direct", True)}
    groups["late"] = group("late", True)
    groups["late"].share_device()

    right = is_right(groups["direct"], options, index, device)
    counts = torch.tensor([float(right)], device=device)
    say({"replays": options.replays, "ranks_right": groups["nccl"].sum(counts).item()})
    for width in options.widths:
        for rows in options.rows:
            alone = chain_us(None, rows, width, device)
            found = {
                name: round((chain_us(one, rows, width, device) - alone) / LAYERS, 2)
                for name, one in groups.items()
            }
            say({"rows": rows, "width": width, "product_us": round(alone / LAYERS, 2), **found})
    for numbers in (1024, 16384, 65536, 131072):
        say({"numbers": numbers, **{name: sum_us(g, numbers) for name, g in groups.items()}})
    torch.cuda.synchronize()


def is_right(group: Any, options: argparse.Namespace, index: int, device: torch.device) -> bool:
    """Whether all replays gave what one GPU makes of the same numbers."""
    from mstarc_runtime.kernels.joined_rows import join_rows, pieces

    rows, width, calls = 3, 2048, 8
    draw = random.Random(index)
    maker = torch.Generator(device).manual_seed(1)
    given = torch.randn(
        calls, options.ranks, rows, width, generator=maker, device=device, dtype=torch.float32
    )
    number = torch.zeros(1, device=device)
    part, residual, wanted = (torch.zeros(rows, width, device=device) for _ in range(3))
    gain = torch.ones(width, device=device).bfloat16()
    h = torch.empty(rows, width, device=device, dtype=torch.bfloat16)
    squares = torch.empty(pieces(width), rows, device=device)
    inboxes = group.inboxes(part.numel())
    assert inboxes is not None

    def body() -> None:
        number.add_(1.0)
        for call in range(calls):
            part.copy_(given[call, index] * (number % 7))
            join_rows(
                part, inboxes, residual=residual, gain=gain, h=h, squares=squares, chained=True
            )
            total = given[call, 0] * (number % 7)
            for other in range(1, options.ranks):
                total = total + given[call, other] * (number % 7)
            wanted.add_(total)

    graph = captured(body)
    right = torch.ones((), dtype=torch.bool, device=device)
    for replay in range(options.replays):
        if draw.random() < 0.02:
            torch.cuda._sleep(draw.randrange(200_000))
        graph.replay()
        if replay % 16 == 0:
            right &= (residual == wanted).all()
    right &= (residual == wanted).all() & residual.isfinite().all()
    return bool(right)


def chain_us(group: Any, rows: int, width: int, device: torch.device) -> float:
    """A chain's µs: products alone without a group."""
    from mstarc_runtime.kernels.joined_rows import join_rows, pieces
    from mstarc_runtime.kernels.kinds import RESIDUAL
    from mstarc_runtime.kernels.normed_rows import rejoin_rows
    from mstarc_runtime.kernels.normed_stack import product

    weights = [torch.randn(width, INNER, device=device).bfloat16() * 0.01 for _ in range(LAYERS)]
    products = [product(RESIDUAL, weight, batch=rows) for weight in weights]
    inboxes = None if group is None else group.inboxes(rows * pieces(width) * 512)
    x = torch.randn(rows, INNER, device=device).bfloat16()
    h = torch.empty(rows, width, device=device, dtype=torch.bfloat16)
    part, residual = (torch.zeros(rows, width, device=device) for _ in range(2))
    gain = torch.ones(width, device=device).bfloat16()
    own = torch.empty(products[0].tiles, rows, device=device)
    squares = torch.empty(pieces(width) if inboxes else 1, rows, device=device)
    made: dict[str, Any] = {"residual": residual, "gain": gain, "h": h, "squares": squares}

    def body() -> None:
        for one in products:
            one(x, h, residual=part, gain=gain, squares_out=own)
            if inboxes is not None:
                join_rows(part, inboxes, **made, chained=True)
            elif group is not None:
                rejoin_rows(group.sum(part), **made, chained=True)

    return replayed_us(captured(body))


def sum_us(group: Any, numbers: int) -> float:
    """µs of one sum of so many numbers of float32, of 20 that follow one another."""
    value = torch.zeros(numbers, device=torch.device("cuda", torch.cuda.current_device()))

    def body() -> None:
        for _ in range(20):
            group.sum(value)

    return round(replayed_us(captured(body)) / 20, 2)


def captured(body: Callable[[], None]) -> Any:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        body()
        body()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        body()
    return graph


def replayed_us(graph: Any) -> float:
    times: list[float] = []
    for _ in range(30):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return sorted(times)[len(times) // 2]


if __name__ == "__main__":
    main()

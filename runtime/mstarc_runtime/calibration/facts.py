"""Facts of a machine: how fast kernels read and multiply, what a hop and a step cost.

Each is the best of several runs: what the machine reaches, not what else it does meanwhile.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import zmq

from mstarc_runtime.calibration.steps import measure_step

READ_BYTES = 2**28
MATMUL_SIZE = 1024
RUNS = 5
HOPS = 300

_ECHO = """
import sys, zmq
context = zmq.Context()
inbox, outbox = context.socket(zmq.PULL), context.socket(zmq.PUSH)
inbox.bind("ipc://" + sys.argv[1] + "/there")
outbox.connect("ipc://" + sys.argv[1] + "/here")
while (message := inbox.recv()) != b"end":
    outbox.send(message)
"""


def measure_facts(kind: str) -> dict[str, float]:
    """The facts that a profile has, by their names there."""
    device = torch.device("cpu" if kind == "cpu" else "cuda")
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    return {
        "bandwidth_bytes_per_s": _read_rate(device),
        "matrix_flops_per_s": _matmul_rate(device, dtype),
        "hop_s": _hop_seconds(),
        "launch_s": measure_step(device),
    }


def _best(run: "object", device: torch.device) -> float:
    assert callable(run)
    times = []
    for _ in range(RUNS):
        _wait(device)
        started = time.perf_counter()
        run()
        _wait(device)
        times.append(time.perf_counter() - started)
    return min(times)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _read_rate(device: torch.device) -> float:
    values = torch.ones(READ_BYTES // 4, dtype=torch.float32, device=device)
    return READ_BYTES / _best(values.sum, device)


def _matmul_rate(device: torch.device, dtype: torch.dtype) -> float:
    size = MATMUL_SIZE if device.type == "cpu" else 8 * MATMUL_SIZE
    a = torch.full((size, size), 0.5, dtype=dtype, device=device)
    return float(2 * size**3 / _best(lambda: a @ a, device))


def _hop_seconds() -> float:
    """Half the way to another process and back, over the sockets that ranks talk through."""
    with tempfile.TemporaryDirectory(prefix="mstarc-hop-") as folder:
        context = zmq.Context()
        inbox, outbox = context.socket(zmq.PULL), context.socket(zmq.PUSH)
        inbox.bind(f"ipc://{folder}/here")
        child = subprocess.Popen(
            [sys.executable, "-c", _ECHO, folder], env=dict(os.environ), cwd=Path(folder)
        )
        outbox.connect(f"ipc://{folder}/there")
        try:
            times = []
            for number in range(HOPS):
                started = time.perf_counter()
                outbox.send(b"x" * 64)
                if not inbox.poll(10_000):
                    break
                inbox.recv()
                if number:  # the first waits for the other process to begin
                    times.append(time.perf_counter() - started)
            outbox.send(b"end")
        finally:
            outbox.close(linger=1000)
            inbox.close(linger=0)
            context.term()
            child.wait(timeout=10)
    times.sort()
    return times[len(times) // 2] / 2 if times else 0.0

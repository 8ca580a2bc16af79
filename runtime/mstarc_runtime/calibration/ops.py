"""Seconds of each op of a job, alone, at each batch and number of rows.

A node is built as a rank would build it, with random weights; slots are given to made-up requests
whose contexts hold `context` rows. What is timed is what a step does for one call: room in the
cache, then the op. An op that can't be called with made-up values is left out, with its reason.
"""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mstarc_runtime.attention.makers import reference_attention
from mstarc_runtime.calibration.modules import built
from mstarc_runtime.calibration.weigh import bytes_of
from mstarc_runtime.engine.arrays import ContextArrays
from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.dtypes import torch_dtype
from mstarc_runtime.engine.kv_cache import KVEngine
from mstarc_runtime.engine.op_plans import GREEDY, op_plans, sampler_states
from mstarc_runtime.engine.options import OptionTable
from mstarc_runtime.engine.stateless import StatelessEngine
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.layout import CacheLayout
from mstarc_runtime.plan_api import DeviceStep, Maybe, Sampler
from mstarc_runtime.weights.random import randomise

PAGE_TOKENS = 16
# A small model may have fewer positions than a job wants behind a call.
SHORTER = (8, 0)
MOST_RUNS = 20
LEAST_RUNS = 3
ENOUGH_S = 0.2

Engine = KVEngine | StatelessEngine


def measure_ops(job: dict[str, Any]) -> dict[str, Any]:
    """Points of all ops, bytes of weights by node, and what was left out, with its reason."""
    device = torch.device("cpu" if job["device"] == "cpu" else "cuda")
    points: list[dict[str, Any]] = []
    weights: dict[str, int] = {}
    skipped: list[dict[str, str]] = []
    for number, node in enumerate(job["nodes"]):
        module = built(node, dtype=torch_dtype(job["dtype"]), device=device)
        if module is None:
            skipped.append({"op": node["name"], "why": "its module can't be built from its config"})
            continue
        randomise(module, seed=number, device=device)
        weights[node["name"]] = bytes_of(module)
        bench = _NodeBench(job, node, module, device)
        for op in node["ops"]:
            found, why = bench.measure(op)
            points += found
            if why is not None:
                skipped.append({"op": f"{node['name']}.{op['name']}", "why": why})
    return {"ops": points, "weights": weights, "skipped": skipped}


class _AnyOption(dict[str, Any]):
    """A request's options: whatever is asked for is there."""

    def __missing__(self, name: str) -> Any:
        return 1


class _NodeBench:
    """One node on a device, and made-up requests for it."""

    def __init__(
        self, job: Mapping[str, Any], node: Mapping[str, Any], module: Any, device: torch.device
    ) -> None:
        self.job = job
        self.node = node
        self.device = device
        self.slots = max(job["batches"])
        self.options = OptionTable(slots=self.slots, device=device)
        self.engine: Engine
        if node["engine"] == "kv_cache":
            self.engine = self._kv_engine(module)
        else:
            self.engine = StatelessEngine(node["name"], module)

    def _kv_engine(self, module: Any) -> KVEngine:
        job, kv = self.job, self.node["kv"]
        ops = self.node["ops"]
        static = [_row_count(op, 1) for op in ops]
        most = job["context"] + max(*job["rows"], *static) + PAGE_TOKENS
        pages = -(-most // PAGE_TOKENS) * self.slots * len(kv["contexts"])
        layout = CacheLayout(
            layers=kv["layers"],
            kv_heads=kv["heads"],
            head_dim=kv["head_dim"],
            pages=pages,
            page_size=PAGE_TOKENS,
            slots=self.slots,
            max_rows=most,
            contexts=tuple(kv["contexts"]),
            cross=kv["cross"],
        )
        cache = KVCache(layout, dtype=torch_dtype(job["dtype"]), device=self.device)
        samplers = tuple(_sampler(entry) for entry in kv["samplers"]) or (GREEDY,)
        vocab = getattr(module, "vocab_size", 0) or getattr(module, "vocabulary", 1)
        return KVEngine(
            name=self.node["name"],
            module=module,
            cache=cache,
            backend=reference_attention(cache),
            kv_heads=kv["heads"],
            samplers=sampler_states(
                self.node["name"],
                samplers,
                slots=self.slots,
                vocab=vocab,
                device=self.device,
                captured=False,
            ),
            settings=samplers,
            ops=op_plans(
                {op["name"]: op["mask"] for op in ops if op["mask"]},
                {op["name"]: name for op in ops for name in op["writes"]},
                {op["name"]: name for op in ops if not op["writes"] for name in op["reads"]},
                samplers,
                {op["name"]: op["sampler"] for op in ops if op["sampler"]},
            ),
            arrays=ContextArrays({}, cache),
        )

    def measure(self, op: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str | None]:
        """The points of an op; and why there are none, or not all."""
        if any(value["kind"] == "other" for value in op["parameters"]):
            return [], "it takes what only a request brings"
        points: list[dict[str, Any]] = []
        free = any(None in value.get("dims", ()) for value in op["parameters"])
        for rows in self.job["rows"] if free else [1]:
            for batch in self.job["batches"]:
                found, why = self._try(op, batch, rows)
                if found is None:
                    return points, why
                points.append(found)
        return points, None

    def _try(
        self, op: Mapping[str, Any], batch: int, rows: int
    ) -> tuple[dict[str, Any] | None, str]:
        """A point, in the first way to call the op that it does not refuse."""
        why = ""
        for context in dict.fromkeys((self.job["context"], *SHORTER) if op["mask"] else (0,)):
            for as_numbers in (False, True):
                try:
                    seconds = self._time(op, batch, rows, context, as_numbers=as_numbers)
                except Exception as error:
                    # Whatever an op says about made-up values, the others can be measured.
                    why = why or f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
                    continue
                named = {"node": self.node["name"], "op": op["name"], "batch": batch, "rows": rows}
                return {**named, "context": context, "seconds": seconds}, ""
        return None, why

    def _time(
        self, op: Mapping[str, Any], batch: int, rows: int, context: int, *, as_numbers: bool
    ) -> float:
        """Seconds of a call. `as_numbers`: a number behind the first value is a plain one."""
        step = DeviceStep(
            id=0,
            name=f"{self.node['name']}.{op['name']}",
            run=_nothing,
            nodes=(self.node["name"],),
            rows=op["rows"],
            then=0,
            line=0,
        )
        made = StepBatch(
            step, batch, padding_slot=self.slots, device=self.device, options=self.options
        )
        slots = np.arange(batch, dtype=np.int64)
        made.bind(slots)
        arguments = [
            self._argument(value, op["rows"], batch, rows, as_number=as_numbers and bool(index))
            for index, value in enumerate(op["parameters"])
        ]
        call = getattr(self.engine, op["name"])
        taken: list[float] = []
        for _ in range(MOST_RUNS):
            self._begin(slots, context)
            self._wait()
            started = time.perf_counter()
            self._make_room(op, made, rows)
            call(made, *arguments)
            self._wait()
            taken.append(time.perf_counter() - started)
            if len(taken) > LEAST_RUNS and sum(taken[1:]) > ENOUGH_S:
                break
        # In the first run memory is taken and kernels are chosen. Of the others a quick one counts:
        # whatever else the machine does only adds to it.
        return sorted(taken[1:])[len(taken[1:]) // 4]

    def _begin(self, slots: np.ndarray[Any, np.dtype[np.int64]], before: int) -> None:
        """Each request anew, with `before` rows behind it."""
        engine = self.engine
        if not isinstance(engine, KVEngine):
            return
        for slot in slots.tolist():
            engine.release(slot)
            engine.admit(slot, _AnyOption(), seed=slot)
        if before:
            for name in engine.cache.layout.contexts:
                keys = np.array([engine.cache.key(slot, name) for slot in slots.tolist()])
                engine.cache.ensure(keys, before)
                engine.cache.advance(keys, before)

    def _make_room(self, op: Mapping[str, Any], batch: StepBatch, rows: int) -> None:
        engine = self.engine
        batch.begin()
        if not isinstance(engine, KVEngine):
            return
        batch.growth.clear()
        batch.contexts.clear()
        count = 1 if op["rows"] == "one" else _row_count(op, rows)
        each = 1 if op["rows"] == "one" else [count] * batch.size
        if op["writes"]:
            engine.grow(batch, each, op["writes"][0])
        elif op["reads"]:
            engine.peek(batch, each, op["reads"][0])

    def _argument(
        self, value: Mapping[str, Any], kind: str, batch: int, rows: int, *, as_number: bool
    ) -> Any:
        """A made-up value: one a request stacked; rows behind one another where they are packed."""
        if value["kind"] == "flag":
            return [True] * batch if as_number else True
        if value["kind"] == "scalar":
            scalars = {"int": torch.int64, "float": torch.float32, "bool": torch.bool}
            return torch.ones(batch, dtype=scalars[value["dtype"]], device=self.device)
        dims = [rows if size is None else int(size) for size in value["dims"]]
        if as_number and not dims and value["dtype"].startswith("i"):
            return 1
        shape = (batch, *dims)
        if kind == "packed" and dims:
            shape = (batch * dims[0], *dims[1:])
        # What a spec calls bf16 is as the device keeps it.
        name = self.job["dtype"] if value["dtype"] == "bf16" else value["dtype"]
        dtype = torch_dtype(name)
        made: Tensor
        if dtype.is_floating_point:
            made = torch.full(shape, 0.1, dtype=dtype, device=self.device)
        else:
            made = torch.ones(shape, dtype=dtype, device=self.device)
        if value.get("optional"):
            return Maybe(made, torch.ones(batch, dtype=torch.bool, device=self.device))
        return made

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _nothing(*_: object) -> None:
    """A step's body: ops are called by themselves."""


def _sampler(entry: Mapping[str, Any]) -> Sampler:
    """Settings that a request gives are as those of a usual one."""
    settings = entry["settings"]

    def of(name: str, usual: float) -> float:
        return usual if settings.get(name, usual) is None else settings.get(name, usual)

    return Sampler(
        name=entry["name"],
        temperature=of("temperature", 0.0 if "temperature" not in settings else 0.7),
        top_k=int(of("top_k", 0)),
        top_p=of("top_p", 1.0 if "top_p" not in settings else 0.9),
        repetition_penalty=of("repetition_penalty", 1.0),
    )


def _row_count(op: Mapping[str, Any], rows: int) -> int:
    """Rows that a packed call brings a request: as the op says, else of its first wide tensor."""
    if op["advance"] is not None:
        return int(op["advance"])
    for value in op["parameters"]:
        if value["kind"] == "tensor" and value["dims"]:
            first = value["dims"][0]
            return rows if first is None else int(first)
    return 1

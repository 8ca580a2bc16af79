"""Run a spec's plan on one real rank, over models that a test gives."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mstarc import driver
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from mstarc_runtime.request import PreparedRequest
from tests.runtime.rig import Collected, Rig
from tests.support.toy_ranks import module, plan_package

Asked = tuple[Mapping[str, Any], Mapping[str, Any]]
"""Inputs and options of a request."""


def run_all(text: str, models: Mapping[str, Any], asked: Sequence[Asked]) -> list[Collected]:
    """What each request makes, all of them running at once; nothing of them is left."""
    outcome = driver.compile_spec(SourceFile(path="spec.mstar", text=text), CompileOptions())
    assert outcome.files is not None, [(d.code, d.message) for d in outcome.diagnostics]
    files = {name: t.replace('source=""', 'source="random"') for name, t in outcome.files.items()}
    # What text is made of is compared, not the text.
    placed = json.loads(files["placements/cpu/placement.json"])
    plan = json.loads(files["plan.json"])
    outputs = {output["name"]: output["type"] for output in plan["outputs"]}
    with plan_package(files) as (messages, machines):
        loaded = module("compiled", files["placements/cpu/rank0.py"])
        rig = Rig(
            [(loaded.RANK, loaded.STEPS)],
            machines={n: (m["rank"], m["step"]) for n, m in placed["machines"].items()},
            models=models,
            outputs={name: "i64" if kind == "text" else kind for name, kind in outputs.items()},
            admit=lambda given: machines.admit(messages.Request(**given)),
            streams={
                name: (s["producer_ranks"][0], s["consumer_rank"], s["capacity"])
                for name, s in placed["streams"].items()
            },
        )
        found = []
        for inputs, options in asked:
            listener = Collected()
            prepared = PreparedRequest(
                name="", inputs=inputs, options=options, wants=frozenset(outputs), seed=0
            )
            rig.conductor.submit(prepared, listener)
            found.append(listener)
        rig.run()
        rig.check_clean()
        return found

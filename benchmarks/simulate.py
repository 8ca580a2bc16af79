"""Simulated against run: `python benchmarks/simulate.py [--json]`.

A model whose ops only sleep for a set time is compiled, run as processes on `2xcpu` and `4xcpu`
with a burst of requests of several lengths, and simulated with the same times and the same
requests. What a step costs besides its ops on this machine is measured before, with one request.
Printed are requests a second and medians of seconds, measured and simulated, and the ratio of both;
the goal is a throughput within 15 %.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

SPEC = """mstar 1

model sleepy

request {
  in  prompt     : text
  out speech     : audio(24000)
  opt max_tokens : int = 40 in 1 .. 400
}

node reader : host {
  impl "sleepy:Reader"
  op encode(prompt: text) -> (ids: i64[T])
}

node lm : kv_cache {
  impl "sleepy:Model"
  weights "random"
  kv { layers = 1, heads = 1, head_dim = 16 }
  op prefill(ids: i64[T]) -> (token: i64)  attends causal  writes
  op step(token: i64)     -> (next: i64)   attends causal  writes
}

node codec : stateless {
  impl "sleepy:Codec"
  weights "random"
  op decode(codes: i64[8]) -> (pcm: f32[64])
}

stream codes : i64 chunk fixed(8) tail drop empty skip

walk start(ids: i64[T]) -> (token: i64) { token = lm.prefill(ids) }

walk decode(first: i64) {
  loop max max_tokens carry token = first while token != 0 {
    send codes <- token
    token = lm.step(token)
  }
}

walk sing(window: i64[8]) {
  pcm = codec.decode(window)
  emit speech <- pcm
}

machine speak {
  state begin {
    ids   = reader.encode(prompt)
    token = run start(ids)
    run decode(token)
    next done
  }
}

machine voice {
  state listen {
    each codes as window run sing(window)
    next done
  }
}
"""

ROWS = 32
PREFILL_S, STEP_S, DECODE_S = 0.080, 0.050, 0.060

MODEL = f'''"""Ops that sleep."""
import time
import torch
from torch import nn

class Reader:
    @classmethod
    def build(cls, config, **_):
        return cls()
    def encode(self, prompt):
        return torch.full(({ROWS},), 7, dtype=torch.int64)

class Model(nn.Module):
    vocab_size = 8
    @classmethod
    def build(cls, config, **_):
        return cls()
    def prefill(self, ctx, ids):
        time.sleep({PREFILL_S})
        return ids[ctx.last_rows]
    def step(self, ctx, token):
        time.sleep({STEP_S})
        return token.clone()

class Codec(nn.Module):
    @classmethod
    def build(cls, config, **_):
        return cls()
    def decode(self, ctx, codes):
        time.sleep({DECODE_S})
        return torch.zeros(codes.shape[0], 64)
'''

SITE = """import mstarc_runtime.models
from pathlib import Path
mstarc_runtime.models.__path__.append(str(Path(__file__).parent))
"""

# The times above, as `mstarc bench --calibrate` would have measured them; `STEP` is measured here.
PROFILE = f"""model: sleepy
device: cpu
facts: {{launch_s: STEP}}
ops:
  reader.encode: [{{batch: 1, rows: {ROWS}, context: 0, seconds: 0.0002}}]
  lm.prefill: [{{batch: 1, rows: {ROWS}, context: 0, seconds: {PREFILL_S}}}]
  lm.step: [{{batch: 1, rows: 1, context: 0, seconds: {STEP_S}}}]
  codec.decode: [{{batch: 1, rows: 8, context: 0, seconds: {DECODE_S}}}]
"""

MIX = f"""requests:
  - {{rows: {ROWS}, options: {{max_tokens: 8}}}}
  - {{rows: {ROWS}, options: {{max_tokens: 16}}}}
  - {{rows: {ROWS}, options: {{max_tokens: 32}}}}
"""

LAYOUTS = {
    "2xcpu": [("lm", [0]), ("codec", [1])],
    "4xcpu": [("lm", [0, 1, 2]), ("codec", [3])],
}


def deployment(name: str, requests: int) -> str:
    """The layout as a deployment file."""
    groups = "\n".join(
        f"  - {{node_names: [{node}], ranks: {ranks}}}" for node, ranks in LAYOUTS[name]
    )
    return (
        f"model: sleepy\ndevices: {name}\nmax_seq_len: 512\n"
        f"max_concurrent_requests: {requests}\nnode_groups:\n{groups}\n"
    )


def lengths(burst: int) -> list[int]:
    """The lengths of the requests that the simulation draws."""
    from random import Random

    from mstarc.deployment.mix import read_mix
    from mstarc.diagnostics import DiagnosticSink
    from mstarc.source import SourceFile

    kinds = read_mix(SourceFile(path="mix.yaml", text=MIX), DiagnosticSink())
    assert kinds is not None
    random = Random(0)
    drawn = []
    for _ in range(burst):
        kind = random.choices(kinds, [k.share for k in kinds])[0]
        assert kind.rows is not None
        random.randint(kind.rows.low, kind.rows.high)
        drawn.append(int(kind.options["max_tokens"]))
    return drawn


def measured(plan: Path, name: str, tokens: list[int]) -> dict[str, float]:
    """Runs the plan's processes with all requests at once."""
    import mstarc_runtime.models
    from mstarc_runtime.assembly import RunSettings
    from mstarc_runtime.launch import launched, run_until_done
    from mstarc_runtime.loader import load_placement, load_plan
    from mstarc_runtime.request import Asked, prepare
    from mstarc_runtime.weights.progress import progress_to

    mstarc_runtime.models.__path__.append(str(plan.parent))
    loaded = load_plan(plan)
    settings = RunSettings(cache_dir=plan.parent / "cache", threads=1)
    ended: list[float] = []
    first: list[float] = []

    class Listener:
        def __init__(self) -> None:
            self.has_begun = False

        def __getattr__(self, event: str) -> Any:
            def heard(*said: object) -> None:
                if event == "sound" and not self.has_begun:
                    self.has_begun = True
                    first.append(time.perf_counter() - begun)
                if event in ("finished", "failed", "cancelled"):
                    assert event == "finished", said
                    ended.append(time.perf_counter() - begun)

            return heard

    with launched(
        loaded,
        load_placement(loaded, name),
        settings=settings,
        progress=progress_to(),
        say=lambda text: None,
    ) as ranks:
        prepared = [
            prepare(loaded, Asked(inputs={"prompt": "hi"}, options={"max_tokens": n}))
            for n in tokens
        ]
        begun = time.perf_counter()
        for one in prepared:
            ranks.conductor.submit(one, Listener())
        run_until_done(ranks)
    return {
        "requests_per_s": len(ended) / max(ended),
        "latency_s": statistics.median_low(ended),
        "first_output_s": statistics.median_low(first),
    }


def simulated(folder: Path, name: str, burst: int, requests: str = "mix.yaml") -> dict[str, float]:
    """The same, by `mstarc simulate`."""
    words = ["simulate", "sleepy.mstar", "--deployment", f"{name}.yaml", "--burst", str(burst)]
    words += ["--requests", requests, "--profile", "profile.yaml", "--format", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "mstarc", *words], cwd=folder, check=True, capture_output=True
    )
    answer = json.loads(done.stdout)
    return {
        "requests_per_s": answer["requests_per_s"],
        "latency_s": answer["latency_s"]["p50"],
        "first_output_s": answer["first_output_s"]["p50"],
    }


def calibrated(folder: Path) -> float:
    """Seconds that a step costs besides its ops: of one request alone, what sleeping leaves."""
    count = 32
    run = measured(folder / "plan", "2xcpu", [count])
    (folder / "profile.yaml").write_text(PROFILE.replace("STEP", "0.0"), encoding="utf-8")
    (folder / "alone.yaml").write_text(
        f"requests: [{{rows: {ROWS}, options: {{max_tokens: {count}}}}}]\n", encoding="utf-8"
    )
    told = simulated(folder, "2xcpu", 1, "alone.yaml")
    besides = max(0.0, (run["latency_s"] - told["latency_s"]) / count)
    (folder / "profile.yaml").write_text(PROFILE.replace("STEP", f"{besides}"), encoding="utf-8")
    return besides


def main() -> int:
    """Print the table, or with --json the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--burst", type=int, default=24)
    parser.add_argument("--at-once", type=int, default=12, help="requests that are let in")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        texts = {"sleepy.mstar": SPEC, "sleepy.py": MODEL, "sitecustomize.py": SITE}
        texts |= {"mix.yaml": MIX}
        texts |= {f"{name}.yaml": deployment(name, options.at_once) for name in LAYOUTS}
        for path, text in texts.items():
            (folder / path).write_text(text, encoding="utf-8")
        os.environ["PYTHONPATH"] = f"{folder}:{ROOT}:{ROOT / 'runtime'}"
        words = [word for name in LAYOUTS for word in ("--deployment", f"{name}.yaml")]
        command = [sys.executable, "-m", "mstarc", "compile", "sleepy.mstar", *words, "-o", "plan"]
        subprocess.run(command, cwd=folder, check=True, stderr=subprocess.DEVNULL)
        tokens = lengths(options.burst)
        besides = calibrated(folder)
        print(f"a step costs {1e3 * besides:.2f} ms besides its ops", file=sys.stderr)
        for name in LAYOUTS:
            run = measured(folder / "plan", name, tokens)
            told = simulated(folder, name, options.burst)
            rows.append({"devices": name, "measured": run, "simulated": told})
    if options.json:
        print(json.dumps(rows, indent=2))
        return 0
    print(f"{'':<8}{'':<18}{'measured':>10}{'simulated':>11}{'ratio':>8}")
    for row in rows:
        for what, value in row["measured"].items():
            other = row["simulated"][what]
            print(f"{row['devices']:<8}{what:<18}{value:>10.3f}{other:>11.3f}{other / value:>8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

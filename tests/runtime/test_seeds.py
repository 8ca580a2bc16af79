"""A request and its seed make its tokens: alone, in any batch and order, after a restart, captured.

Orpheus in tiny says what a main sampler draws, whole. A small decoder draws from two samplers: what
the one draws says nothing of the other. Torch's own generators raise all the while.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mstarc_runtime.assembly import Extras
from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.engine.fake import FakeGraphExecutor
from tests.runtime.compiled import run_all
from tests.runtime.plan_folder import write_plan
from tests.runtime.test_determinism import PROMPTS, speak

SEEDS = {prompt: 100 + number for number, prompt in enumerate(PROMPTS)}


@pytest.fixture(scope="module")
def plan_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_plan("orpheus", tmp_path_factory.mktemp("plan"))


@pytest.fixture(autouse=True)
def _no_global_random(monkeypatch: pytest.MonkeyPatch) -> None:
    def poisoned(*_: Any, **__: Any) -> None:
        raise AssertionError("the global random generator was used")

    names = ("rand", "randn", "randint", "multinomial", "bernoulli", "normal", "randperm")
    for name in names:
        monkeypatch.setattr(torch, name, poisoned)
    for name in ("manual_seed", "seed", "set_rng_state", "get_rng_state"):
        monkeypatch.setattr(torch.random, name, poisoned)
    for name in ("random_", "uniform_", "normal_", "exponential_", "bernoulli_"):
        monkeypatch.setattr(Tensor, name, poisoned)


def hashed(sounds: Sequence[bytes], prompts: Sequence[str]) -> dict[str, str]:
    made = zip(prompts, sounds, strict=True)
    return {prompt: sha256(sound).hexdigest() for prompt, sound in made}


def said(folder: Path, prompts: Sequence[str], **how: Any) -> dict[str, str]:
    return hashed(speak(folder, [(prompt, SEEDS[prompt]) for prompt in prompts], **how), prompts)


@pytest.fixture(scope="module")
def alone(plan_folder: Path) -> dict[str, str]:
    return {prompt: said(plan_folder, [prompt])[prompt] for prompt in PROMPTS}


@pytest.mark.parametrize("count", [2, 4, 7])
@pytest.mark.parametrize("order", [1, -1], ids=["forwards", "backwards"])
def test_in_a_batch_as_alone(
    plan_folder: Path, alone: dict[str, str], count: int, order: int
) -> None:
    prompts = PROMPTS[:count][::order]
    # The tests' CPU computes each row by itself: a batch is of as many tiles as there are rows.
    assert said(plan_folder, prompts) == {prompt: alone[prompt] for prompt in prompts}


def test_in_one_batch_whenever_they_come(plan_folder: Path) -> None:
    """Rows side by side in one call of a fixed size, whoever the neighbours are."""
    how: dict[str, Any] = {"deterministic": False, "buckets": (4,)}
    found = [
        said(plan_folder, order, stagger=stagger, extras=captured(), **how)
        for order, stagger in ((PROMPTS[:4], 0), (PROMPTS[3::-1], 5))
    ]
    assert found[0] == found[1]


def test_after_a_restart(plan_folder: Path, alone: dict[str, str]) -> None:
    assert said(plan_folder, PROMPTS[:1]) == {PROMPTS[0]: alone[PROMPTS[0]]}


def captured(executor: Any = None, stretch: int | None = None) -> Extras:
    return Extras(
        executor=executor or FakeGraphExecutor(),
        attention=lambda cache: TorchAttention(cache, row_by_row=False),
        stretch=stretch,
    )


def test_captured_or_not(plan_folder: Path) -> None:
    eager = Extras(attention=lambda cache: TorchAttention(cache, row_by_row=False))
    assert said(plan_folder, PROMPTS[:2], deterministic=False, extras=eager) == said(
        plan_folder, PROMPTS[:2], deterministic=False, extras=captured(), buckets=(1, 2)
    )


def test_in_stretches_as_pass_by_pass(plan_folder: Path) -> None:
    """At one size: which windows the codec gets together differs, and so would their last bits."""
    how: dict[str, Any] = {"deterministic": False, "buckets": (2,)}
    made = [
        said(plan_folder, PROMPTS[:2], extras=captured(stretch=stretch), **how)
        for stretch in (0, 4)
    ]
    assert made[0] == made[1]


def test_other_seeds_say_something_else(plan_folder: Path) -> None:
    sounds = speak(plan_folder, [("hello", seed) for seed in (1, 2, 1)])
    assert sounds[0] == sounds[2] != sounds[1]


# A main and an auxiliary sampler

TWO_SAMPLERS = """mstar 1
model two
request {
  in  prompt : text
  out tokens : text via tok.text
  out words  : text via tok.text
  opt length : int = 12 in 0 .. 40
  opt seed   : int = 0
}
node tok : host {
  impl "two:Tok"
  op ids(prompt: text) -> (ids: i64[T])
  op text(token: i64) -> (piece: text)  stateful
}
node lm : kv_cache {
  impl "two:Lm"
  kv { layers = 1, heads = 1, head_dim = 8 }
  sample { temperature = 0.9, seed = seed }
  sample words { temperature = 0.9, seed = seed }
  op prefill(ids: i64[T]) -> (token: i64)  attends causal  writes
  op step(token: i64) -> (next: i64, word: i64)  attends causal  writes
}
walk start(ids: i64[T]) -> (token: i64) { token = lm.prefill(ids) }
walk decode(first: i64) {
  loop max length carry token = first {
    token, word = lm.step(token)
    emit tokens <- token
    emit words <- word
  }
}
machine main {
  state begin {
    ids = tok.ids(prompt)
    token = run start(ids)
    next decode
  }
  state decode { run decode(token) next done }
}
"""


class Tok:
    @classmethod
    def build(cls, config: object, **_: object) -> "Tok":
        return cls()

    def ids(self, prompt: str) -> Tensor:
        return torch.tensor(list(prompt.encode())) % Lm.vocab_size


class Lm(nn.Module):
    """Logits are a fixed function of the token; words are drawn from the same ones, or not."""

    vocab_size = 64
    draws_words = True

    @classmethod
    def build(cls, config: object, **_: object) -> "Lm":
        return cls()

    def prefill(self, ctx: Any, ids: Tensor) -> Tensor:
        tokens: Tensor = ctx.sample(self._logits(ids)[ctx.last_rows])
        return tokens

    def step(self, ctx: Any, token: Tensor) -> tuple[Tensor, Tensor]:
        logits = self._logits(token)
        words = ctx.sample(logits, sampler="words") if self.draws_words else torch.zeros_like(token)
        return ctx.sample(logits), words

    def _logits(self, ids: Tensor) -> Tensor:
        return torch.sin(ids[:, None] * 0.7 + torch.arange(self.vocab_size) * 1.3)


class Quiet(Lm):
    draws_words = False


def two(lm: type[Lm], seeds: Sequence[int]) -> Iterator[dict[str, list[Any]]]:
    asked = [({"prompt": f"request {seed}"}, {"length": 12, "seed": seed}) for seed in seeds]
    for listener in run_all(TWO_SAMPLERS, {"two:Tok": Tok, "two:Lm": lm}, asked):
        assert listener.failure is None
        yield listener.values


def test_an_auxiliary_sampler_has_draws_of_its_own() -> None:
    (alone,) = two(Lm, [5])
    beside = list(two(Lm, [4, 5, 6]))
    (quiet,) = two(Quiet, [5])
    assert alone == beside[1]
    assert alone["tokens"] == quiet["tokens"], "what is drawn beside it changes nothing"
    assert alone["tokens"] != alone["words"], "the same logits and seed, another stream of draws"
    assert len({str(made["tokens"]) for made in beside}) == 3

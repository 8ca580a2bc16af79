"""Items that a rank's steps write into another rank's ring are those that messages would bring."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from mstarc.cli.main import run_command
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.peer_memory import PeerMemory
from mstarc_runtime.streaming.peer_ring import PeerRing
from tests.support.golden import ROOT
from tests.support.omni_plan import OmniRanks, samples_of

APART = """
model: qwen3_omni
devices: 2xcpu
max_seq_len: 2048
max_concurrent_requests: 4
node_groups:
  - {node_names: [frontend, audio_encoder, vision_encoder, Thinker], ranks: [0]}
  - {node_names: [Talker, Code2Wav], ranks: [1]}
"""
PARTS = [{"text": "Be brief.", "role": "system"}, "What is a cat, and what does it say?"]


class TensorStore:
    """A ring in the same process."""

    def __init__(self, storage: Tensor) -> None:
        self.storage = storage
        self.written = 0

    def __call__(self, slots: Tensor, positions: Tensor, items: Tensor) -> None:
        self.storage.index_put_((slots[:, None], positions), items)
        self.written += 1


def connect(ranks: OmniRanks) -> list[TensorStore]:
    """Lets each rank write the long rings of the others."""
    workers = ranks.ranks.workers
    rings = {name: ring for worker in workers for name, ring in worker.parts.rings.items()}
    stores = []
    for worker in workers:
        for name, box in worker.parts.outboxes.items():
            if not name.startswith("states"):
                continue
            ring = rings[name]
            ring.is_fed_here = False
            store = TensorStore(ring.storage)
            box.connect(
                PeerRing(
                    store,
                    capacity=ring.capacity,
                    slots=worker.plan.slots,
                    device=torch.device("cpu"),
                )
            )
            stores.append(store)
    return stores


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("omni")
    (folder / "apart.yaml").write_text(APART)
    specs = ROOT / "specs"
    code = run_command(
        [
            *("compile", str(specs / "qwen3_omni.mstar"), "-o", str(folder / "plan")),
            *("--sizes", str(specs / "tiny" / "qwen3_omni.yaml")),
            *("--deployment", str(folder / "apart.yaml")),
        ]
    )
    assert code == 0
    return folder / "plan"


def test_speech_is_the_same_either_way(plan: Path, tmp_path: Path) -> None:
    heard = []
    for is_connected in (False, True):
        ranks = OmniRanks(plan, "apart")
        stores = connect(ranks) if is_connected else []
        before = [worker.snapshot() for worker in ranks.ranks.workers]
        listeners = [
            ranks.submit(PARTS, tmp_path, max_tokens=count, talker_max_tokens=7)
            for count in (5, 9, 3)
        ]
        ranks.run()
        assert all(listener.failure is None for listener in listeners)
        heard.append([(one.texts["reply"], samples_of(one)) for one in listeners])
        assert [worker.snapshot() for worker in ranks.ranks.workers] == before
        assert len(stores) == (3 if is_connected else 0)
        assert all(store.written for store in stores)
    for (text, sound), (other_text, other_sound) in zip(*heard, strict=True):
        assert text == other_text
        assert torch.equal(sound, other_sound)


def test_a_slot_begins_anew_behind_a_request(plan: Path, tmp_path: Path) -> None:
    ranks = OmniRanks(plan, "apart")
    connect(ranks)
    answers = []
    for _ in range(2):
        listener = ranks.submit(PARTS, tmp_path, max_tokens=4, talker_max_tokens=5)
        ranks.run()
        answers.append((listener.texts["reply"], samples_of(listener)))
    assert answers[0][0] == answers[1][0]
    assert torch.equal(answers[0][1], answers[1][1])


def test_cpus_are_refused_where_devices_are_asked_for(plan: Path) -> None:
    ranks = OmniRanks(plan, "apart")
    peers = PeerMemory(ranks.ranks.workers[0], ranks.ranks.conductor.placement, "device")
    with pytest.raises(RuntimeFailure) as refused:
        peers.agree()
    assert refused.value.code == "MS9019"


def test_heads_are_what_has_landed() -> None:
    storage = torch.zeros(3, 8, 2)
    ring = PeerRing(TensorStore(storage), capacity=8, slots=2, device=torch.device("cpu"))
    rows = torch.arange(10.0).view(5, 2)
    ring.append_packed([1, 0], [6, 2], [3, 2], rows)
    assert torch.equal(storage[1, [6, 7, 0]], rows[:3])
    assert torch.equal(storage[0, 2:4], rows[3:])
    ring.set_heads(np.array([0, 1]), np.array([5, 1]))
    ring.append_packed([0], [5], [1], rows[:1])
    assert torch.equal(storage[0, 5], rows[0])

"""The shipped specs, the sizes they are tested in, and requests that reach all their states."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from mstarc.ir.graph import Machine, Program
from mstarc.ir.interpret import Request
from mstarc.ir.interpret.evaluate import Evaluator, Scope
from mstarc.source import SourceFile
from tests.support.golden import ROOT
from tests.support.requests import requests_for

SPECS = ROOT / "specs"
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedSpec:
    """A spec of `specs/`. `options` are values that requests of the tests choose from.

    `public_nodes` and `public_walks` are names that deployment files of others say.
    """

    name: str
    options: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    public_nodes: frozenset[str] = frozenset()
    public_walks: frozenset[str] = frozenset()

    @property
    def source(self) -> SourceFile:
        """Its text, under its path from the root."""
        return _source(f"specs/{self.name}.mstar")

    @property
    def sizes(self) -> SourceFile:
        """The file of its sizes for tests."""
        return _source(f"specs/tiny/{self.name}.yaml")


def _source(path: str) -> SourceFile:
    return SourceFile(path=path, text=(ROOT / path).read_text(encoding="utf-8"))


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SPECS_BY_NAME: Mapping[str, ShippedSpec] = {
    spec.name: spec
    for spec in (
        ShippedSpec(
            name="bagel",
            options={
                "height": (256, 512),
                "width": (256,),
                "steps": (2, 3, 9),
                "text_scale": (1.0, 4.0),
                "image_scale": (1.0, 2.0),
                "max_tokens": (1, 5),
            },
            public_nodes=_names(
                "vit_encoder vae_encoder vae_decoder LLM LLM_cfg_text LLM_cfg_img combine_cfg"
            ),
            public_walks=_names(
                "prefill_text prefill_vit prefill_vae decode image_gen image_gen_cfg"
            ),
        ),
        ShippedSpec(
            name="cosmos3",
            options={
                "height": (64,),
                "breadth": (64, 96),
                "frames": (1, 5),
                "steps": (1, 3),
                "guidance": (1.0, 6.0),
                "guide_from": (0.0, 0.5),
            },
            public_nodes=_names("dit vae_encoder vae_decoder audio_decoder"),
            public_walks=_names(
                "prefill prefill_cond prefill_cond_video image_gen video_gen action_gen "
                "action_video_gen video_sound_gen"
            ),
        ),
        ShippedSpec(
            name="higgs_audio",
            public_nodes=_names("audio_encoder LLM"),
            public_walks=_names("prefill_text prefill_audio decode"),
        ),
        ShippedSpec(
            name="orpheus",
            options={"max_tokens": (1, 3, 60)},
            public_nodes=_names("LLM snac_decoder"),
            public_walks=_names("prefill decode snac_chunk"),
        ),
        ShippedSpec(
            name="pi05",
            public_nodes=_names("vit_encoder LLM"),
            public_walks=_names("prefill action_gen"),
        ),
        ShippedSpec(
            name="qwen3_omni",
            public_nodes=_names("audio_encoder vision_encoder Thinker Talker Code2Wav"),
            public_walks=_names(
                "prefill_text prefill_audio prefill_vision thinker_decode talker_prefill "
                "talker_last_prefill talker_decode code2wav_chunk"
            ),
        ),
        ShippedSpec(
            name="qwen3_tts",
            public_nodes=_names("Talker Codec"),
            public_walks=_names("talker_prefill talker_decode codec_chunk"),
        ),
        ShippedSpec(
            name="vjepa2",
            public_nodes=_names("video_encoder predictor rollout_predictor"),
            public_walks=_names(
                "prefill_video prefill_video_encoder_only prefill_video_rollout "
                "prefill_video_rollout_streaming"
            ),
        ),
        ShippedSpec(
            name="vjepa2_ac",
            options={
                "samples": (8, 11),
                "elites": (1, 3),
                "rounds": (1, 2),
                "horizon": (1, 3),
            },
            public_nodes=_names(
                "video_encoder predictor ac_predictor_mpc mpc_scorer rollout_predictor"
            ),
            public_walks=_names(
                "prefill_video prefill_video_encoder_only prefill_video_rollout "
                "prefill_video_rollout_streaming prefill_video_mpc"
            ),
        ),
        ShippedSpec(name="voice_chat"),
        ShippedSpec(
            name="wan22",
            options={
                "height": (64,),
                "breadth": (64, 96),
                "frames": (5, 9),
                "steps": (1, 3),
                "guidance": (1.0, 5.0),
            },
            public_nodes=_names("text_encoder vae_encoder vae_decoder dit"),
            public_walks=_names("encode_text encode_image video_gen video_gen_i2v"),
        ),
        ShippedSpec(
            name="whisper",
            public_nodes=_names("audio_encoder decoder"),
            public_walks=_names("prefill decode"),
        ),
    )
}


def admitted(program: Program, spec: ShippedSpec, count: int) -> Iterator[Request]:
    """Requests that meet the spec's needs, of `count` that are made by chance.

    In every third one no loop is stopped by a token, so that it runs to its bound.
    """
    chance = Random(spec.name)
    for number, request in enumerate(requests_for(program, count)):
        chosen = {name: chance.choice(values) for name, values in spec.options.items()}
        made = Request(
            inputs=request.inputs,
            options={**request.options, **chosen},
            wants=request.wants,
            tokens=request.tokens if number % 3 else (),
        )
        evaluator = Evaluator(program, made)
        if all(evaluator.evaluate(need.condition, Scope()) for need in program.needs):
            yield made


def deployment_of(program: Program, *, apart: bool) -> SourceFile:
    """A file that puts all nodes on one device, or what has one public name on one of its own.

    Requests are small, so that any model fits.
    """
    nodes = [node for node in program.nodes if node.engine != "host"]
    public = dict.fromkeys((node.aliases or (node.name,))[0] for node in nodes)
    groups = [[name] for name in public] if apart else [list(public)]
    lines = [
        f"model: {program.model}",
        f"devices: {len(groups)}xH200",
        "max_seq_len: 32",
        "max_concurrent_requests: 1",
        "node_groups:",
    ]
    for rank, group in enumerate(groups):
        lines += [f"  - node_names: [{', '.join(group)}]", f"    ranks: [{rank}]"]
    return SourceFile(path="deployment.yaml", text="\n".join(lines) + "\n")


def possible_paths(machine: Machine) -> frozenset[Path]:
    """Every way through the states of a machine, whether or not a request may take it."""
    states = {state.name: state for state in machine.states}

    def onward(name: str) -> Iterator[Path]:
        if name == "done":
            yield ()
            return
        go = states[name].next
        targets = {go.target} if go.otherwise is None else {go.target, go.otherwise}
        for target in sorted(targets):
            for rest in onward(target):
                yield (name, *rest)

    return frozenset(onward(machine.states[0].name))


def taken_paths(program: Program, request: Request) -> Iterator[tuple[str, Path]]:
    """The machines that run in a request, each with the states that it goes through."""
    evaluator = Evaluator(program, request)
    for machine in program.machines:
        if machine.condition is not None and not evaluator.evaluate(machine.condition, Scope()):
            continue
        states = {state.name: state for state in machine.states}
        path: list[str] = []
        name = machine.states[0].name
        while name != "done":
            path.append(name)
            go = states[name].next
            holds = go.condition is None or evaluator.evaluate(go.condition, Scope())
            name = go.target if holds else go.otherwise or go.target
        yield machine.name, tuple(path)


def all_paths(program: Program) -> frozenset[tuple[str, Path]]:
    """Every way through every machine."""
    return frozenset(
        (machine.name, path)
        for machine, paths in ((m, possible_paths(m)) for m in program.machines)
        for path in paths
    )


__all__ = [
    "SPECS",
    "SPECS_BY_NAME",
    "ShippedSpec",
    "admitted",
    "all_paths",
    "deployment_of",
    "possible_paths",
    "taken_paths",
]

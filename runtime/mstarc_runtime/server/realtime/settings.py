"""What a session chooses, and how a client changes it.

A session is a frozen `Settings`; an update names the fields that change. What a plan cannot do is
refused with MS9217, so that nobody believes in a setting that has no effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from mstarc_runtime.server import body as fields
from mstarc_runtime.server.abilities import Abilities, rate_of
from mstarc_runtime.server.chat import read_voice
from mstarc_runtime.server.models import check_model
from mstarc_runtime.server.service import Service

INPUT_RATE: Final = 24000
Modality = Literal["text", "audio"]

_SESSION: Final = (
    *("type", "model", "instructions", "output_modalities", "audio", "max_output_tokens"),
    *("options", "tools", "tool_choice", "tracing", "include"),
)
_INPUT: Final = ("format", "transcription", "noise_reduction", "turn_detection")
_OUTPUT: Final = ("format", "voice", "speed")
_RESPONSE: Final = (
    *("conversation", "input", "instructions", "output_modalities", "audio", "metadata"),
    *("max_output_tokens", "options", "tools", "tool_choice"),
)
_DETECTION: Final = (
    *("type", "threshold", "prefix_padding_ms", "silence_duration_ms"),
    *("create_response", "interrupt_response"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """When speech begins and ends, and what its end does."""

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500
    create_response: bool = True
    interrupt_response: bool = True

    def shown(self) -> dict[str, Any]:
        return {
            "type": "server_vad",
            "threshold": self.threshold,
            "prefix_padding_ms": self.prefix_padding_ms,
            "silence_duration_ms": self.silence_duration_ms,
            "create_response": self.create_response,
            "interrupt_response": self.interrupt_response,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of a session, or of one answer. `options` are the spec's."""

    modality: Modality
    output_rate: int | None
    instructions: str = ""
    transcribes: bool = False
    detection: Detection | None = None
    voice: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def shown(self, service: Service, name: str) -> dict[str, Any]:
        """The session as its client sees it."""
        heard = {"model": service.plan.model} if self.transcribes else None
        return {
            "id": name,
            "object": "realtime.session",
            "type": "realtime",
            "model": service.plan.model,
            "instructions": self.instructions,
            "output_modalities": [self.modality],
            "audio": {
                "input": {
                    "format": {"type": "audio/pcm", "rate": INPUT_RATE},
                    "transcription": heard,
                    "noise_reduction": None,
                    "turn_detection": None if self.detection is None else self.detection.shown(),
                },
                "output": {
                    "format": {"type": "audio/pcm", "rate": self.output_rate},
                    "voice": self.voice or "default",
                    "speed": 1.0,
                },
            },
            "max_output_tokens": self.options.get("max_tokens", "inf"),
            "options": dict(self.options),
            "tools": [],
            "tool_choice": "auto",
        }


def first_settings(abilities: Abilities) -> Settings:
    """What holds until a client says otherwise: speech if there is any, turns that it ends."""
    sound = abilities.sound
    return Settings(
        modality="text" if sound is None else "audio",
        output_rate=None if sound is None else rate_of(sound.type),
    )


def updated(settings: Settings, session: Mapping[str, Any], service: Service) -> Settings:
    """The settings with what a `session.update` names. Fails with MS9212, MS9213 or MS9217."""
    fields.check_fields(session, _SESSION, "`session`")
    fields.choice(session, "type", ("realtime",), "realtime")
    check_model(service.plan, session)
    for name in ("tracing", "include"):
        if session.get(name):
            raise fields.wrong(f"`{name}` of a session is not served")
    settings = _said(settings, session, service)
    sound = fields.field(session, "audio", "object", {})
    fields.check_fields(sound, ("input", "output"), "`audio`")
    heard = fields.field(sound, "input", "object", {})
    fields.check_fields(heard, _INPUT, "`audio.input`")
    _check_format(heard, INPUT_RATE, "audio.input.format")
    if heard.get("noise_reduction") is not None:
        raise fields.wrong("`noise_reduction` is not served", "give `null`, or leave it out")
    if "transcription" in heard:
        settings = replace(settings, transcribes=_transcribes(heard, service.abilities))
    if "turn_detection" in heard:
        settings = replace(settings, detection=_detection(heard))
    return settings


def for_answer(settings: Settings, response: Mapping[str, Any], service: Service) -> Settings:
    """What one `response.create` says beside the session. Fails as `updated`."""
    fields.check_fields(response, _RESPONSE, "`response`")
    fields.choice(response, "conversation", ("auto", "none"), "auto")
    sound = fields.field(response, "audio", "object", {})
    fields.check_fields(sound, ("output",), "`audio`")
    return _said(settings, response, service)


def _said(settings: Settings, said: Mapping[str, Any], service: Service) -> Settings:
    """What sessions and answers both may say."""
    abilities = service.abilities
    if fields.field(said, "tools", "list", []):
        raise fields.wrong("the model uses no `tools`")
    fields.choice(said, "tool_choice", ("auto", "none"), "auto")
    instructions = fields.field(said, "instructions", "text")
    if instructions is not None:
        if instructions and abilities.parts is None:
            raise fields.wrong("the model has no turns, and so takes no `instructions`")
        settings = replace(settings, instructions=instructions)
    wanted = fields.field(said, "output_modalities", "list")
    if wanted is not None:
        settings = replace(settings, modality=_modality(wanted, abilities))
    given = dict(fields.field(said, "options", "object", {}))
    longest = said.get("max_output_tokens")
    if longest is not None and longest != "inf":
        given["max_tokens"] = fields.field(said, "max_output_tokens", "whole number")
    kept = dict(settings.options)
    if longest == "inf":
        kept.pop("max_tokens", None)
    checked = fields.checked_options(given, service.plan.options)
    spoken = fields.field(fields.field(said, "audio", "object", {}), "output", "object", {})
    fields.check_fields(spoken, _OUTPUT, "`audio.output`")
    _check_format(spoken, settings.output_rate, "audio.output.format")
    if fields.field(spoken, "speed", "number", 1.0) != 1.0:
        raise fields.wrong("`speed` is 1 here")
    read_voice(abilities, spoken, checked)
    voice = spoken.get("voice") or settings.voice
    return replace(settings, options={**kept, **checked}, voice=voice)


def _modality(wanted: list[Any], abilities: Abilities) -> Modality:
    if wanted not in (["text"], ["audio"]):
        raise fields.wrong(
            f"`output_modalities` can't be {fields.shown(wanted)}",
            'it is `["text"]`, or `["audio"]`, which has the words too',
        )
    modality: Modality = "audio" if wanted == ["audio"] else "text"
    if (abilities.sound if modality == "audio" else abilities.reply) is None:
        what = "sound" if modality == "audio" else "text"
        raise fields.wrong(f"the model replies without {what}")
    return modality


def _check_format(said: Mapping[str, Any], rate: int | None, name: str) -> None:
    form = fields.field(said, "format", "object")
    if form is None:
        return
    fields.check_fields(form, ("type", "rate"), f"`{name}`")
    fields.choice(form, "type", ("audio/pcm",), "audio/pcm")
    found = fields.field(form, "rate", "whole number", rate)
    if found != rate:
        raise fields.wrong(f"`{name}.rate` can't be {found}", f"it is {rate}: 16 bits, one channel")


def _transcribes(heard: Mapping[str, Any], abilities: Abilities) -> bool:
    said = fields.field(heard, "transcription", "object")
    if said is None:
        return False
    if abilities.transcript is None:
        raise fields.wrong("the model writes no transcript of what it hears")
    fields.check_fields(said, ("model",), "`transcription`")
    return True


def _detection(heard: Mapping[str, Any]) -> Detection | None:
    said = fields.field(heard, "turn_detection", "object")
    if said is None:
        return None
    fields.check_fields(said, _DETECTION, "`turn_detection`")
    fields.choice(said, "type", ("server_vad",), "server_vad")
    usual = Detection()
    threshold = fields.field(said, "threshold", "number", usual.threshold)
    padding = fields.field(said, "prefix_padding_ms", "whole number", usual.prefix_padding_ms)
    silence = fields.field(said, "silence_duration_ms", "whole number", usual.silence_duration_ms)
    for name, value, least, most in (
        ("threshold", threshold, 0.05, 0.95),
        ("prefix_padding_ms", padding, 0, 5000),
        ("silence_duration_ms", silence, 64, 10_000),
    ):
        if not least <= value <= most:
            raise fields.wrong(f"`{name}` can't be {value}", f"it is {least} .. {most}")
    return Detection(
        threshold=threshold,
        prefix_padding_ms=padding,
        silence_duration_ms=silence,
        create_response=fields.field(said, "create_response", "true or false", True),
        interrupt_response=fields.field(said, "interrupt_response", "true or false", True),
    )

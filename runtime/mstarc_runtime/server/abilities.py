"""What a plan takes and makes → what the routes can do with it.

A route of OpenAI's needs inputs and outputs of certain kinds; the names are the spec's. The rules:

- parts of a message go to the plan's input of parts, or each to the one input of its kind;
- a text output named `transcript` is what was heard; the first other text output is the reply;
- the first output of sound is what is said, the first picture what is drawn;
- pictures of an optional output `preview` come before it is finished, as many as the option
  `partial_images` asks for.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.loader import Declared, LoadedPlan

KINDS = ("text", "image", "audio", "video")
TRANSCRIPT = "transcript"
PREVIEW = "preview"
PREVIEWS = "partial_images"


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """The inputs and outputs of a plan by what routes want of them.

    `parts` is the input of several parts, if it is all that must be given. `single` has the input
    of each kind, where all that must be given are of different kinds; else it is empty.
    """

    parts: Declared | None
    single: Mapping[str, Declared]
    reply: Declared | None
    transcript: Declared | None
    sound: Declared | None
    picture: Declared | None
    preview: Declared | None
    options: Mapping[str, Declared]

    @property
    def takes(self) -> frozenset[str]:
        """The kinds of parts that a message may have."""
        if self.parts is not None:
            return frozenset(kind_of(kind) for kind in self.parts.type[1:-1].split(" | "))
        return frozenset(self.single)

    @property
    def can_chat(self) -> bool:
        return bool(self.takes) and self.reply is not None

    @property
    def can_speak(self) -> bool:
        """Whether a text alone is enough for sound."""
        if self.sound is None or "text" not in self.takes:
            return False
        return all(kind == "text" or entry.optional for kind, entry in self.single.items())

    @property
    def can_transcribe(self) -> bool:
        """Whether a sound alone is enough for a transcript."""
        if self.transcript is None or "audio" not in self.takes:
            return False
        return all(kind == "audio" or entry.optional for kind, entry in self.single.items())

    @property
    def can_draw(self) -> bool:
        """Whether a text alone is enough for a picture."""
        if self.picture is None or "text" not in self.takes:
            return False
        return all(kind == "text" or entry.optional for kind, entry in self.single.items())

    @property
    def can_redraw(self) -> bool:
        """Whether a text and pictures are enough for a picture."""
        if self.picture is None or not {"text", "image"} <= self.takes:
            return False
        return all(
            kind in ("text", "image") or entry.optional for kind, entry in self.single.items()
        )

    @property
    def can_converse(self) -> bool:
        """Whether a sound alone is enough for a reply."""
        if "audio" not in self.takes or (self.reply is None and self.sound is None):
            return False
        return all(kind == "audio" or entry.optional for kind, entry in self.single.items())

    @property
    def routes(self) -> tuple[str, ...]:
        """The routes that can be asked."""
        can = {
            "/v1/chat/completions": self.can_chat,
            "/v1/audio/speech": self.can_speak,
            "/v1/audio/transcriptions": self.can_transcribe,
            "/v1/images/generations": self.can_draw,
            "/v1/images/edits": self.can_redraw,
            "/v1/realtime": self.can_converse,
            "/generate": True,
        }
        return tuple(route for route, is_there in can.items() if is_there)


def kind_of(declared_type: str) -> str:
    """`audio(16000)` → `audio`."""
    return declared_type.partition("(")[0]


def rate_of(declared_type: str) -> int | None:
    """`audio(16000)` → 16000; None where a sound keeps its own rate."""
    _, _, rest = declared_type.partition("(")
    return int(rest[:-1]) if rest else None


def abilities_of(plan: LoadedPlan) -> Abilities:
    """What the plan is able to do."""
    needed = [entry for entry in plan.inputs if not entry.optional]
    several = [entry for entry in plan.inputs if entry.type.startswith("[")]
    parts = several[0] if len(several) == 1 and needed in ([], several) else None
    single: dict[str, Declared] = {}
    if not several:
        kinds = [kind_of(entry.type) for entry in needed]
        if len(set(kinds)) == len(kinds) and set(kinds) <= set(KINDS):
            single = {kind_of(entry.type): entry for entry in needed}
            for entry in plan.inputs:
                if entry.optional and kind_of(entry.type) in KINDS:
                    single.setdefault(kind_of(entry.type), entry)
    texts = [entry for entry in plan.outputs if entry.type == "text"]
    images = [entry for entry in plan.outputs if entry.type == "image"]
    counts_previews = any(entry.name == PREVIEWS for entry in plan.options)
    previews = [
        entry for entry in images if entry.name == PREVIEW and entry.optional and counts_previews
    ]
    pictures = [entry for entry in images if entry not in previews]
    sounds = [entry for entry in plan.outputs if kind_of(entry.type) == "audio"]
    return Abilities(
        parts=parts,
        single=single,
        reply=next((entry for entry in texts if entry.name != TRANSCRIPT), None),
        transcript=next((entry for entry in texts if entry.name == TRANSCRIPT), None),
        sound=sounds[0] if sounds else None,
        picture=pictures[0] if pictures else None,
        preview=previews[0] if pictures and previews else None,
        options={entry.name: entry for entry in plan.options},
    )


def cannot(plan: LoadedPlan, route: str, why: str) -> RuntimeFailure:
    """MS9218: what the route lacks here, and what there is."""
    return RuntimeFailure(
        "MS9218",
        f"`{plan.model}` can't serve `{route}`: {why}",
        notes=[f"it takes {_shown(plan.inputs)} and makes {_shown(plan.outputs)}"],
        helps=[f"it serves {', '.join(f'`{name}`' for name in abilities_of(plan).routes)}"],
    )


def _shown(declared: tuple[Declared, ...]) -> str:
    return ", ".join(f"`{entry.name}`: {entry.type}" for entry in declared) or "nothing"

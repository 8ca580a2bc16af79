"""What went wrong at run time, as data: code, name, message, notes, help.

The runtime's own catalogue (MS9xxx) and the one exception that carries a row of it to whoever
prints it. A `RuntimeFailure` is about the user's input, files or machine; a mistake of ours is an
`AssertionError` and never gets a code.

Ranges: MS90xx settings, plans and files · MS91xx weights · MS92xx media and requests ·
MS93xx workers and serving.
"""

import difflib
import errno
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueRow:
    """One kind of failure. `code` never changes; `name` reads after "allow"."""

    code: str
    name: str
    summary: str


CATALOGUE: tuple[CatalogueRow, ...] = (
    CatalogueRow(
        code="MS9001", name="bad-setting", summary="an environment variable has a value of no use"
    ),
    CatalogueRow(
        code="MS9002", name="disk-full", summary="there is no room for a file that must be written"
    ),
    CatalogueRow(code="MS9003", name="not-writable", summary="a file or folder can't be written"),
    CatalogueRow(code="MS9004", name="plan-unreadable", summary="a plan can't be read"),
    CatalogueRow(
        code="MS9005", name="plan-abi", summary="a plan was made for another version of the runtime"
    ),
    CatalogueRow(
        code="MS9006", name="plan-edited", summary="a file of a plan is not as it was compiled"
    ),
    CatalogueRow(
        code="MS9007", name="unknown-placement", summary="a plan has no placement of this name"
    ),
    CatalogueRow(
        code="MS9008",
        name="unknown-implementation",
        summary="the runtime has no class that a node names",
    ),
    CatalogueRow(
        code="MS9010", name="bad-invocation", summary="the command line can't be understood"
    ),
    CatalogueRow(
        code="MS9011", name="device-missing", summary="a placement needs a device that is not there"
    ),
    CatalogueRow(
        code="MS9012", name="not-shardable", summary="a node can't be divided as its placement says"
    ),
    CatalogueRow(
        code="MS9013",
        name="graphs-missing",
        summary="graphs are required, and a region would run call by call",
    ),
    CatalogueRow(
        code="MS9014", name="server-unreachable", summary="a server that is asked is not there"
    ),
    CatalogueRow(
        code="MS9015", name="no-request", summary="requests for a measurement can't be made up"
    ),
    CatalogueRow(code="MS9016", name="not-capturable", summary="a region can't be a CUDA graph"),
    CatalogueRow(
        code="MS9017", name="bad-keys-file", summary="a file of API keys can't be understood"
    ),
    CatalogueRow(
        code="MS9018", name="telemetry-missing", summary="traces need packages that are not there"
    ),
    CatalogueRow(
        code="MS9019",
        name="device-unreachable",
        summary="a stream can't go from device to device",
    ),
    CatalogueRow(
        code="MS9101", name="unknown-weights", summary="no source has this name for weights"
    ),
    CatalogueRow(code="MS9102", name="fetch-failed", summary="weights could not be downloaded"),
    CatalogueRow(
        code="MS9103", name="weights-hash", summary="a weights file is not the one that was pinned"
    ),
    CatalogueRow(
        code="MS9104",
        name="weights-missing",
        summary="a needed tensor or file is not there",
    ),
    CatalogueRow(
        code="MS9105", name="weights-shape", summary="a tensor has another shape than the model's"
    ),
    CatalogueRow(
        code="MS9106",
        name="weights-left-over",
        summary="a layer's tensor has no place in it",
    ),
    CatalogueRow(code="MS9107", name="weights-unreadable", summary="a weights file can't be read"),
    CatalogueRow(
        code="MS9108",
        name="missing-package",
        summary="a needed Python package is not there",
    ),
    CatalogueRow(
        code="MS9109",
        name="model-config",
        summary="a checkpoint's config.json doesn't suit a model",
    ),
    CatalogueRow(
        code="MS9201",
        name="unreadable-input",
        summary="an input file can't be opened",
    ),
    CatalogueRow(code="MS9202", name="not-audio", summary="an input file holds no sound"),
    CatalogueRow(code="MS9203", name="empty-audio", summary="a recording has no samples"),
    CatalogueRow(
        code="MS9204", name="audio-too-long", summary="a recording is longer than the model hears"
    ),
    CatalogueRow(
        code="MS9205",
        name="audio-not-finite",
        summary="a recording's samples are no numbers",
    ),
    CatalogueRow(code="MS9206", name="not-a-picture", summary="an image or a video can't be seen"),
    CatalogueRow(code="MS9210", name="unknown-input", summary="a plan takes no such input"),
    CatalogueRow(code="MS9211", name="missing-input", summary="a request lacks an input"),
    CatalogueRow(code="MS9212", name="unknown-option", summary="a plan has no such option"),
    CatalogueRow(
        code="MS9213", name="refused-request", summary="a request asks for what its model can't do"
    ),
    CatalogueRow(
        code="MS9214", name="bad-request-file", summary="a file of requests can't be understood"
    ),
    CatalogueRow(code="MS9215", name="unknown-output", summary="a plan makes no such output"),
    CatalogueRow(code="MS9216", name="bad-input", summary="an input is of another kind"),
    CatalogueRow(
        code="MS9217", name="bad-http-request", summary="a request over HTTP can't be understood"
    ),
    CatalogueRow(
        code="MS9218", name="model-cannot", summary="a model can't do what a route is for"
    ),
    CatalogueRow(
        code="MS9219", name="media-too-large", summary="media are larger than a server takes"
    ),
    CatalogueRow(
        code="MS9220",
        name="media-too-costly",
        summary="media can't be read with the time and memory that there are for them",
    ),
    CatalogueRow(code="MS9221", name="no-api-key", summary="a request has no key that is known"),
    CatalogueRow(
        code="MS9222", name="deadline-passed", summary="a request was not answered in its time"
    ),
    CatalogueRow(code="MS9223", name="no-such-route", summary="a server has no such address"),
    CatalogueRow(
        code="MS9224", name="request-too-slow", summary="a request did not come whole in its time"
    ),
    CatalogueRow(
        code="MS9301", name="worker-died", summary="a worker process ended while it was needed"
    ),
    CatalogueRow(
        code="MS9302", name="start-failed", summary="a worker process could not get ready"
    ),
    CatalogueRow(
        code="MS9303", name="start-too-slow", summary="a worker did not get ready in time"
    ),
    CatalogueRow(code="MS9304", name="step-failed", summary="the code of a step raised an error"),
    CatalogueRow(
        code="MS9305", name="out-of-pages", summary="the KV cache has too few pages for a request"
    ),
    CatalogueRow(
        code="MS9306", name="stream-empty", summary="a stream that must carry items carried none"
    ),
    CatalogueRow(
        code="MS9307",
        name="streams-unequal",
        summary="streams that are read in step have unequally many chunks",
    ),
    CatalogueRow(code="MS9308", name="socket-trouble", summary="processes can't reach one another"),
    CatalogueRow(
        code="MS9309", name="request-too-long", summary="a request needs more context than there is"
    ),
    CatalogueRow(
        code="MS9310", name="too-many-requests", summary="more requests wait than the queue holds"
    ),
    CatalogueRow(
        code="MS9311", name="group-lost", summary="a rank that holds a part of a node failed"
    ),
    CatalogueRow(code="MS9312", name="address-taken", summary="an address can't be listened on"),
    CatalogueRow(
        code="MS9313",
        name="client-too-slow",
        summary="a client leaves too much of its answer unread",
    ),
    CatalogueRow(
        code="MS9314",
        name="not-serving",
        summary="a server is starting or ending and takes nothing",
    ),
    CatalogueRow(code="MS9315", name="server-failed", summary="a server failed at a request"),
    CatalogueRow(
        code="MS9320", name="worker-silent", summary="a worker process has stopped moving"
    ),
    CatalogueRow(
        code="MS9321",
        name="restarts-exhausted",
        summary="a worker was lost again and again, and the server has given up",
    ),
    CatalogueRow(
        code="MS9322",
        name="wrong-result",
        summary="an op has returned something else than its spec declares",
    ),
)

_ROWS = {row.code: row for row in CATALOGUE}


class RuntimeFailure(Exception):
    """A failure with a code, a headline, consequences (`notes`) and remedies (`helps`)."""

    def __init__(
        self, code: str, message: str, *, notes: Iterable[str] = (), helps: Iterable[str] = ()
    ) -> None:
        assert code in _ROWS, f"{code} is not in the catalogue"
        super().__init__(message)
        self.code = code
        self.message = message
        self.notes = tuple(notes)
        self.helps = tuple(helps)

    @property
    def name(self) -> str:
        return _ROWS[self.code].name

    def again(self, *, helps: Iterable[str] = ()) -> "RuntimeFailure":
        """The same, to be raised once more: an exception keeps where it has been raised."""
        return RuntimeFailure(
            self.code, self.message, notes=self.notes, helps=(*self.helps, *helps)
        )

    def __str__(self) -> str:
        return render(self)


def render(failure: RuntimeFailure) -> str:
    """The text of a failure in the shape of the compiler's diagnostics.

    >>> print(render(RuntimeFailure("MS9203", "`a.wav` is empty", helps=["record something"])))
    error[MS9203]: `a.wav` is empty
       = help: record something
       = more: `mstarc explain MS9203`
    """
    lines = [f"error[{failure.code}]: {failure.message}"]
    lines += [f"   = note: {note}" for note in failure.notes]
    lines += [f"   = help: {text}" for text in failure.helps]
    lines.append(f"   = more: `mstarc explain {failure.code}`")
    return "\n".join(lines)


def did_you_mean(name: str, known: Sequence[str]) -> list[str]:
    """A help with the known names that are nearest to an unknown one; none if none is near.

    >>> did_you_mean("promt", ["prompt", "voice"])
    ['did you mean `prompt`?']
    """
    near = difflib.get_close_matches(name, known, n=3)
    return [f"did you mean {' or '.join(f'`{n}`' for n in near)}?"] if near else []


def not_opened(path: Path, error: OSError) -> RuntimeFailure:
    """MS9201: a file that a request names, with the system's reason."""
    return RuntimeFailure(
        "MS9201", f"`{path}` can't be opened", notes=[f"the system says: {error.strerror}"]
    )


def not_written(path: Path, error: OSError) -> RuntimeFailure:
    """MS9002 or MS9003: a file of an answer, with the system's reason."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return RuntimeFailure(
            "MS9002",
            f"the disk is full while writing `{path}`",
            helps=["make room, or write to another disk"],
        )
    return RuntimeFailure(
        "MS9003", f"`{path}` can't be written", notes=[f"the system says: {error.strerror}"]
    )

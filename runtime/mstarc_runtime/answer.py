"""What a request makes, on its way to a person: text on a terminal, sound and text in files.

Events of a request → text printed as it comes, `<output>.wav` written as it streams, and at the
end `<output>.txt`, `<output>.png` (`<output>-1.png` … of several) and `<output>.npy` (`.npz` where
values differ in shape). Files appear under their names when the request has ended well, and nothing
is left of one that has not.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.errors import RuntimeFailure, not_written
from mstarc_runtime.media.audio import WavWriter

Clock = Callable[[], float]


class TextPrinter:
    """Prints texts of several outputs and requests as they grow, one at a time a line.

    Fails with MS9002 or MS9003 where they can't be printed; after that nothing is.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._current = ""
        self._is_open = False

    def piece(self, label: str, text: str) -> None:
        if label != self._current or not self._is_open:
            self.end_line()
            self._write(f"{label}: ")
            self._current, self._is_open = label, True
            text = text.lstrip()
        self._write(text)

    def end_line(self) -> None:
        if self._is_open:
            self._write("\n")
        self._is_open = False

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except UnicodeEncodeError:
            self._write(text.encode(self._stream.encoding, "replace").decode(self._stream.encoding))
        except OSError as error:
            self._is_open = False
            # What the stream still holds would fail once more at the end.
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            raise not_written(Path("stdout"), error) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where files go: into `folder`, or sound alone into `file`; nowhere if both are None."""

    folder: Path | None = None
    file: Path | None = None

    @property
    def inside(self) -> Path | None:
        """The folder that files go into."""
        return self.folder if self.file is None else self.file.parent

    def path(self, name: str, suffix: str) -> Path | None:
        if self.file is not None:
            return self.file if suffix == ".wav" else None
        return None if self.folder is None else self.folder / f"{name}{suffix}"


@dataclass(slots=True, kw_only=True, eq=False)
class Answer:
    """One request's listener. Times are seconds from `begun_s`; None if nothing came.

    `name` is empty if the request is alone: then its text is printed as it comes.
    """

    name: str
    target: Target
    printer: TextPrinter
    # The outputs that are images, whose values are u8[3, H, W].
    images: frozenset[str] = frozenset()
    clock: Clock = time.monotonic
    begun_s: float = 0.0
    first_text_s: float | None = None
    first_sound_s: float | None = None
    last_text_s: float | None = None
    ended_s: float | None = None
    failure: RuntimeFailure | None = None
    is_cancelled: bool = False
    texts: dict[str, list[str]] = field(default_factory=dict)
    values: dict[str, list[NDArray[Any]]] = field(default_factory=dict)
    sound_s: float = 0.0
    # The names of outputs of which anything came.
    outputs: set[str] = field(default_factory=set)
    written: list[Path] = field(default_factory=list)
    _wavs: dict[str, WavWriter] = field(default_factory=dict)
    # Called with a failure to write, which ends the request.
    on_failure: Callable[[RuntimeFailure], None] | None = None

    def __post_init__(self) -> None:
        self.begun_s = self.clock()

    def text(self, output: str, piece: str) -> None:
        now = self.clock() - self.begun_s
        self.outputs.add(output)
        self.first_text_s = self.first_text_s if self.first_text_s is not None else now
        self.last_text_s = now
        self.texts.setdefault(output, []).append(piece)
        if not self.name:
            self.printer.piece(output, piece)

    def sound(self, output: str, samples: NDArray[np.float32], rate: int) -> None:
        if not len(samples):
            return
        self.outputs.add(output)
        if self.first_sound_s is None:
            self.first_sound_s = self.clock() - self.begun_s
        self.sound_s += len(samples) / rate
        path = self.target.path(output, ".wav")
        if path is None or self.failure is not None:
            return
        try:
            writer = self._wavs.get(output)
            if writer is None:
                make_folder(path.parent)
                writer = self._wavs[output] = WavWriter(path, rate)
                writer.begin()
            writer.write(samples)
        except RuntimeFailure as failure:
            self._give_up(failure)

    def value(self, output: str, value: Any) -> None:
        array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
        self.outputs.add(output)
        self.values.setdefault(output, []).append(array)

    def finished(self) -> None:
        self.ended_s = self.clock() - self.begun_s
        if self.name:
            # Texts of several requests would tear one another apart.
            for output, pieces in self.texts.items():
                self.printer.piece(f"{self.name} {output}", "".join(pieces))
        self.printer.end_line()
        if self.failure is not None:
            return
        try:
            self._write_texts()
            for writer in self._wavs.values():
                writer.close()
                self.written.append(writer.path)
        except RuntimeFailure as failure:
            self._give_up(failure)

    def failed(self, failure: RuntimeFailure) -> None:
        self.ended_s = self.clock() - self.begun_s
        self.failure = self.failure or failure
        self.abort()

    def cancelled(self) -> None:
        self.is_cancelled = True
        self.abort()

    def abort(self) -> None:
        """Leaves no half file."""
        self.printer.end_line()
        for writer in self._wavs.values():
            writer.abort()

    def _give_up(self, failure: RuntimeFailure) -> None:
        self.failure = self.failure or failure
        self.abort()
        for path in self.written:
            with suppress(OSError):
                path.unlink()
        self.written.clear()
        if self.on_failure is not None:
            self.on_failure(failure)

    def _write_texts(self) -> None:
        for output, pieces in self.texts.items():
            path = self.target.path(output, ".txt")
            if path is not None:
                write_whole(path, ("".join(pieces).strip() + "\n").encode())
                self.written.append(path)
        for output, arrays in self.values.items():
            if output in self.images:
                self._write_images(output, arrays)
                continue
            alike = len({array.shape for array in arrays}) == 1
            path = self.target.path(output, ".npy" if alike else ".npz")
            if path is not None:
                content = BytesIO()
                if alike:
                    np.save(content, np.stack(arrays))
                else:
                    np.savez(content, *arrays)
                write_whole(path, content.getvalue())
                self.written.append(path)

    def _write_images(self, output: str, pictures: list[NDArray[Any]]) -> None:
        # Here, because a plan without images needs no library for them.
        from mstarc_runtime.media.images import png_bytes

        for number, pixels in enumerate(pictures, 1):
            name = output if len(pictures) == 1 else f"{output}-{number}"
            path = self.target.path(name, ".png")
            if path is not None:
                write_whole(path, png_bytes(pixels))
                self.written.append(path)


def summary(answer: Answer) -> str:
    """One line: when the first text and sound came, how much was said and how fast."""
    facts = []
    if answer.first_text_s is not None:
        facts.append(f"first text after {answer.first_text_s:.2f} s")
    if answer.first_sound_s is not None:
        facts.append(f"first sound after {answer.first_sound_s:.2f} s")
        if answer.last_text_s is not None:
            early = "while" if answer.first_sound_s < answer.last_text_s else "after"
            facts[-1] += f" ({early} text was being written)" if early == "while" else ""
    ended = answer.ended_s or 0.0
    if answer.sound_s:
        factor = ended / answer.sound_s
        facts.append(f"{answer.sound_s:.2f} s of sound, real-time factor {factor:.2f}")
    facts.append(f"{ended:.2f} s in all")
    head = f"{answer.name}: " if answer.name else ""
    return head + ", ".join(facts)


def make_folder(folder: Path) -> None:
    """Fails with MS9002 or MS9003."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_written(folder, error) from error


def write_whole(path: Path, content: bytes) -> None:
    """Makes the file appear whole. Fails with MS9002 or MS9003."""
    make_folder(path.parent)
    partial = path.with_name(f"{path.name}.part")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise not_written(path, error) from error

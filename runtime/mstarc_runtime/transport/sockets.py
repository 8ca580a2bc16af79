"""Participants that are processes of one machine: ZeroMQ over files in a private folder.

Each participant binds one socket that receives, and connects one to every participant that it
sends to; who takes the place of one that is gone binds a file of its own. A message is a list of
frames: the encoded struct, then the raw bytes of its tensors.
The way to a participant holds as many messages as the high-water mark says, at each end; what comes
on top is kept by the sender, which does not wait for it.
"""

import os
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import zmq

from mstarc_runtime.frames import Frame
from mstarc_runtime.messages import Message, decode, encode
from mstarc_runtime.run_choices import HIGH_WATER_MARK
from mstarc_runtime.transport.mailbox import CONDUCTOR, Parcel

# A look at an empty inbox costs several µs; a rank that is busy looks this often.
_LOOK_NS = 200_000
_LINGER_MS = 1000
# How soon it is tried again to send what is kept.
_RETRY_S = 0.001


class SocketMailbox:
    """One participant's sockets in `folder`. Raises `OSError` where none can be made."""

    def __init__(
        self,
        folder: Path,
        participant: int,
        high_water_mark: int = HIGH_WATER_MARK,
        *,
        successors: Mapping[int, int] | None = None,
    ) -> None:
        self._folder = folder
        self._high_water_mark = high_water_mark
        # How many have had a participant's number before the present one.
        self._successors = dict(successors or {})
        self._context = zmq.Context()
        self._inbox = self._socket(zmq.PULL)
        try:
            self._inbox.bind(self._address(participant))
        except zmq.ZMQError as error:
            self._inbox.close()
            self._context.term()
            raise OSError(error.errno, error.strerror) from error
        self._out: dict[int, zmq.Socket[bytes]] = {}
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._poller = zmq.Poller()
        self._poller.register(self._inbox, zmq.POLLIN)
        self._poller.register(self._wake_read, zmq.POLLIN)
        # A steady batch sends the same structs again and again; only their frames differ.
        self._last: dict[int, tuple[Message, bytes]] = {}
        self._look_again_ns = 0
        # Participant → messages that wait for room on the way to it.
        self._kept: dict[int, deque[list[Frame]]] = {}

    @property
    def backlog(self) -> int:
        return sum(len(messages) for messages in self._kept.values()) if self._kept else 0

    def send(self, to: int, message: Message, frames: Sequence[Frame] = ()) -> None:
        last, header = self._last.get(to, (None, b""))
        if message is not last:
            header = encode(message)
            self._last[to] = message, header
        if to in self._kept or not self._sent(to, header, frames):
            self._kept.setdefault(to, deque()).append([header, *frames])

    def succeed(self, to: int, successor: int) -> None:
        if successor == self._successors.get(to, 0):
            return
        self._path(to).unlink(missing_ok=True)
        self._successors[to] = successor
        self._kept.pop(to, None)
        if (socket := self._out.pop(to, None)) is not None:
            socket.close(linger=0)

    def drain(self, to: Iterable[int]) -> None:
        if not self._kept:
            return
        wanted = set(to)
        while wanted & self._kept.keys():
            self._send_kept()
            if wanted & self._kept.keys():
                time.sleep(_RETRY_S)

    def has_parcel(self) -> bool:
        if not int(self._inbox.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            return False
        self._look_again_ns = 0
        return True

    def receive(self) -> Parcel | None:
        if self._kept:
            self._send_kept()
        now = time.perf_counter_ns()
        if now < self._look_again_ns:
            return None
        if not int(self._inbox.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            self._look_again_ns = now + _LOOK_NS
            return None
        header, *frames = self._inbox.recv_multipart()
        return Parcel(decode(header), frames)

    def wait(self, timeout_s: float) -> None:
        self._look_again_ns = 0
        if self._kept:
            timeout_s = min(timeout_s, _RETRY_S)
        for source, _ in self._poller.poll(int(timeout_s * 1000)):
            if source == self._wake_read:
                os.read(self._wake_read, 4096)

    def wake(self) -> None:
        try:
            os.write(self._wake_write, b"!")
        except BlockingIOError:
            return  # full of wakes: it is awake

    def close(self) -> None:
        deadline = time.monotonic() + _LINGER_MS / 1000
        while self._kept and time.monotonic() < deadline:
            self._send_kept()
            time.sleep(_RETRY_S)
        for socket in (self._inbox, *self._out.values()):
            socket.close()
        self._context.term()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _sent(self, to: int, header: Frame, frames: Sequence[Frame]) -> bool:
        """Sends at once, or not at all: only the first part of a message may find no room."""
        socket = self._out.get(to)
        if socket is None:
            socket = self._connect(to)
        try:
            if not frames:
                socket.send(header, zmq.NOBLOCK)
                return True
            socket.send(header, zmq.SNDMORE | zmq.NOBLOCK)
        except zmq.Again:
            return False
        for frame in frames[:-1]:
            socket.send(frame, zmq.SNDMORE)
        socket.send(frames[-1])
        return True

    def _send_kept(self) -> None:
        for to, messages in list(self._kept.items()):
            while messages and self._sent(to, messages[0][0], messages[0][1:]):
                messages.popleft()
            if not messages:
                del self._kept[to]

    def _connect(self, to: int) -> "zmq.Socket[bytes]":
        socket = self._socket(zmq.PUSH)
        socket.connect(self._address(to))
        self._out[to] = socket
        return socket

    def _socket(self, kind: int) -> "zmq.Socket[bytes]":
        socket = self._context.socket(kind)
        socket.set_hwm(self._high_water_mark)
        # Whoever is gone is not waited for long.
        socket.setsockopt(zmq.LINGER, _LINGER_MS)
        return socket

    def _address(self, participant: int) -> str:
        return f"ipc://{self._path(participant)}"

    def _path(self, participant: int) -> Path:
        name = "conductor" if participant == CONDUCTOR else f"process{participant}"
        if successor := self._successors.get(participant, 0):
            name += f"-{successor}"
        return self._folder / name

"""Participants that are processes of one machine: ZeroMQ over files in a private folder.

Each participant binds one socket that receives, and connects one to every participant that it
sends to. A message is a list of frames: the encoded struct, then the raw bytes of its tensors.
Queues have no limit of their own: streams have credits, and everything else is small.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import zmq

from mstarc_runtime.messages import Frame, Message, decode, encode
from mstarc_runtime.transport.mailbox import CONDUCTOR, Parcel

# A look at an empty inbox costs several µs; a rank that is busy looks this often.
_LOOK_NS = 200_000
_LINGER_MS = 1000


class SocketMailbox:
    """One participant's sockets in `folder`. Raises `OSError` where none can be made."""

    def __init__(self, folder: Path, participant: int) -> None:
        self._folder = folder
        self._context = zmq.Context()
        self._inbox = self._socket(zmq.PULL)
        try:
            self._inbox.bind(_address(folder, participant))
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
        # A steady batch sends the same struct again and again; only its frames differ.
        self._last: Message | None = None
        self._look_again_ns = 0
        self._last_header = b""

    def send(self, to: int, message: Message, frames: Sequence[Frame] = ()) -> None:
        socket = self._out.get(to)
        if socket is None:
            socket = self._connect(to)
        if message is not self._last:
            self._last = message
            self._last_header = encode(message)
        if not frames:
            socket.send(self._last_header)
            return
        socket.send(self._last_header, zmq.SNDMORE)
        for frame in frames[:-1]:
            socket.send(frame, zmq.SNDMORE)
        socket.send(frames[-1])

    def receive(self) -> Parcel | None:
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
        for source, _ in self._poller.poll(int(timeout_s * 1000)):
            if source == self._wake_read:
                os.read(self._wake_read, 4096)

    def wake(self) -> None:
        try:
            os.write(self._wake_write, b"!")
        except BlockingIOError:
            return  # full of wakes: it is awake

    def close(self) -> None:
        for socket in (self._inbox, *self._out.values()):
            socket.close()
        self._context.term()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _connect(self, to: int) -> "zmq.Socket[bytes]":
        socket = self._socket(zmq.PUSH)
        socket.connect(_address(self._folder, to))
        self._out[to] = socket
        return socket

    def _socket(self, kind: int) -> "zmq.Socket[bytes]":
        socket = self._context.socket(kind)
        socket.set_hwm(0)
        # Whoever is gone is not waited for long.
        socket.setsockopt(zmq.LINGER, _LINGER_MS)
        return socket


def _address(folder: Path, participant: int) -> str:
    name = "conductor" if participant == CONDUCTOR else f"process{participant}"
    return f"ipc://{folder / name}"

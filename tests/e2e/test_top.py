"""`mstarc top` beside a real server: in a terminal that goes on, and as one picture."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.support.golden import ROOT
from tests.support.serving import Server

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "NO_COLOR"},
    "PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}",
    "TERM": "xterm-256color",
    "COLUMNS": "130",
    "LINES": "50",
}
COMMAND = (sys.executable, "-m", "mstarc", "top")
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A command in a pseudo-terminal; `text` is all that it has written."""

    def __init__(self, *arguments: str) -> None:
        self.text = ""
        self._near, far = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, *arguments], stdin=far, stdout=far, stderr=far, env=ENVIRONMENT
        )
        os.close(far)

    def press(self, key: str) -> None:
        os.write(self._near, key.encode())

    def until(self, wanted: str) -> None:
        """Reads until a text stands there, the terminal's codes left out."""
        deadline = time.monotonic() + 30
        while wanted not in CODES.sub("", self.text):
            assert time.monotonic() < deadline, self.text
            self._read()

    def end(self) -> int:
        """The exit status, when all is read."""
        while self.process.poll() is None:
            self._read()
        self._read()
        os.close(self._near)
        return self.process.returncode

    def _read(self) -> None:
        if select.select([self._near], [], [], 0.1)[0]:
            try:
                self.text += os.read(self._near, 65536).decode(errors="replace")
            except OSError:
                return


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command where there is no terminal."""
    return subprocess.run(
        [*COMMAND, *arguments], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )


def test_a_terminal_shows_requests_as_they_run_until_a_key_ends_it(hello: Server) -> None:
    asked = {"inputs": {"prompt": "hello"}, "options": {"max_tokens": 400}}
    terminal = Terminal(hello.address, "--interval", "0.1")
    terminal.until("hello_stream on 2xcpu")
    terminal.until("no requests now")
    asking = threading.Thread(target=lambda: hello.post("/generate", **asked))
    asking.start()
    terminal.until("speak.write.pass")
    terminal.until("/generate")
    terminal.press("p")
    terminal.until("paused")
    terminal.press("q")
    assert terminal.end() == 0
    asking.join()
    # What was on the screen before is there again, with its cursor.
    assert terminal.text.count("\x1b[?1049h") == terminal.text.count("\x1b[?1049l") == 1
    assert terminal.text.rfind("\x1b[?25h") > terminal.text.rfind("\x1b[?25l")


def test_ctrl_c_ends_it_well(hello: Server) -> None:
    terminal = Terminal(hello.address)
    terminal.until("hello_stream")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 0
    assert "Traceback" not in terminal.text


@pytest.mark.parametrize("options", [(), ("--once",)])
def test_without_a_terminal_it_is_one_picture_without_colour(
    hello: Server, options: tuple[str, ...]
) -> None:
    hello.post("/generate", inputs={"prompt": "hello"})
    done = run(hello.address, "--interval", "0.2", *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "hello_stream on 2xcpu  ready" in done.stdout
    assert "lm 0/" in done.stdout
    assert done.stdout.count("answers") == 2


def test_what_is_not_there_is_said_once() -> None:
    done = subprocess.run(
        [*COMMAND, "http://127.0.0.1:9"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error[MS9014]: no server is reached at `http://127.0.0.1:9`")


def test_wrong_words_are_refused() -> None:
    done = run("--interval", "no")
    assert done.returncode == 2
    assert "error[MS9010]" in done.stderr

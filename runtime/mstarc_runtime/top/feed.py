"""Asks a server how it is: one frame at a time, over HTTP."""

import json
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from mstarc_runtime.errors import RuntimeFailure

_TIMEOUT_S = 5.0
Frame = dict[str, Any]


class Feed:
    """The frames of one server."""

    def __init__(self, address: str, key: str | None) -> None:
        self.address = address.rstrip("/")
        self._headers = {"accept": "application/json"}
        if key:
            self._headers["authorization"] = f"Bearer {key}"

    def frame(self) -> Frame:
        """How the server is now. Fails with MS9014, or with what the server has refused."""
        url = f"{self.address}/debug/live"
        try:
            with urlopen(Request(url, headers=self._headers), timeout=_TIMEOUT_S) as answer:
                frame: Frame = json.load(answer)
        except HTTPError as error:
            raise _refused(self.address, error) from error
        except (URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise RuntimeFailure(
                "MS9014",
                f"no server is reached at `{self.address}`",
                notes=[f"the system says: {reason}"],
                helps=["`mstarc serve PLAN` starts one; give its address: `http://127.0.0.1:8000`"],
            ) from error
        if not isinstance(frame, dict) or "workers" not in frame:
            raise _unlike(self.address)
        return frame


def _refused(address: str, error: HTTPError) -> RuntimeFailure:
    try:
        said = json.load(error)["error"]
        code, message = str(said["code"]), str(said["message"])
    except (ValueError, KeyError, TypeError):
        return _unlike(address)
    if not code.startswith("MS"):
        return _unlike(address)
    helps = ["give it with `--key`, or as MSTARC_API_KEY"] if error.code == 401 else []
    return RuntimeFailure(code, message, helps=helps)


def _unlike(address: str) -> RuntimeFailure:
    return RuntimeFailure(
        "MS9014",
        f"what answers at `{address}` is no server of mstarc's",
        notes=["it has no `/debug/live`"],
    )

"""A failure → the status and the JSON of an answer, in the shape that OpenAI's clients read."""

from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.websockets import WebSocket

from mstarc_runtime.errors import RuntimeFailure

_STATUS = {
    "MS9218": 404,
    "MS9219": 413,
    "MS9221": 401,
    "MS9222": 408,
    "MS9224": 408,
    "MS9301": 503,
    "MS9302": 503,
    "MS9303": 503,
    "MS9305": 503,
    "MS9309": 400,
    "MS9310": 429,
    "MS9311": 503,
    "MS9314": 503,
    "MS9320": 503,
    "MS9321": 503,
}
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "invalid_request_error",
    426: "invalid_request_error",
    429: "rate_limit_error",
    503: "service_unavailable_error",
}


def status_of(failure: RuntimeFailure) -> int:
    """The status that says whose mistake it is. MS92xx are about what was asked."""
    usual = 400 if failure.code.startswith("MS92") else 500
    return _STATUS.get(failure.code, usual)


def error_of(failure: RuntimeFailure, status: int | None = None) -> dict[str, Any]:
    """The `error` of an answer. Its message is whole; notes and helps are also there alone."""
    found = status_of(failure) if status is None else status
    said = [failure.message, *failure.notes, *failure.helps]
    return {
        "message": "; ".join(said),
        "type": _TYPES.get(found, "server_error"),
        "param": None,
        "code": failure.code,
        "name": failure.name,
        "notes": list(failure.notes),
        "helps": list(failure.helps),
    }


def refusal(
    failure: RuntimeFailure, *, status: int | None = None, retry_after_s: int | None = None
) -> JSONResponse:
    """The answer to a request that failed before it had one."""
    found = status_of(failure) if status is None else status
    headers = {}
    if found in (429, 503):
        headers["Retry-After"] = str(retry_after_s or 1)
    return JSONResponse({"error": error_of(failure, found)}, found, headers)


async def refuse_socket(socket: WebSocket, answer: Response) -> None:
    """Refuses a WebSocket before it is accepted, with an answer where the server can send one."""
    if "websocket.http.response" in socket.scope.get("extensions", {}):
        await socket.send_denial_response(answer)
    else:
        await socket.close()

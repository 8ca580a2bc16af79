"""What there is and how it does: `/v1/models`, `/live`, `/health`, `/ready`, `/metrics`, …

`/live` is for what restarts a server: 503 when it can't be helped otherwise. `/health` is 503 while
a worker is lost, also while it is started again. `/ready` is for what sends requests: 200 only
while they are taken and every worker answers. Nothing here waits for a request.
"""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mstarc_runtime.server.metrics import CONTENT_TYPE
from mstarc_runtime.server.models import check_model, model
from mstarc_runtime.server.openapi import openapi, page
from mstarc_runtime.server.refusals import error_of
from mstarc_runtime.server.service import Service


async def models(_: Request, service: Service) -> Response:
    return JSONResponse({"object": "list", "data": [model(service)]})


async def one_model(request: Request, service: Service) -> Response:
    check_model(service.plan, {"model": request.path_params["name"]})
    return JSONResponse(model(service))


async def live(_: Request, service: Service) -> Response:
    return JSONResponse({"state": service.state}, 503 if service.is_beyond_help else 200)


async def health(_: Request, service: Service) -> Response:
    answer: dict[str, object] = {"state": service.state, "model": service.plan.model}
    if service.failure is not None:
        answer["error"] = error_of(service.failure)
    return JSONResponse(answer, 503 if service.failure or service.state == "ended" else 200)


async def ready(_: Request, service: Service) -> Response:
    workers = await service.workers()
    is_ready = service.state == "ready" and all(worker["answers"] for worker in workers)
    answer: dict[str, object] = {
        "ready": is_ready,
        "state": service.state,
        "requests": service.taken,
        "restarts": service.restarts,
        "workers": workers,
    }
    if service.failure is not None:
        answer["error"] = error_of(service.failure)
    return JSONResponse(answer, 200 if is_ready else 503)


async def metrics(_: Request, service: Service) -> Response:
    await service.measure()
    return Response(service.metrics.text(), headers={"content-type": CONTENT_TYPE})


async def held(_: Request, service: Service) -> Response:
    return JSONResponse(await service.held())


async def api(_: Request, service: Service) -> Response:
    return JSONResponse(openapi(service))


async def api_page(_: Request, service: Service) -> Response:
    return Response(page(openapi(service)), headers={"content-type": "text/html; charset=utf-8"})

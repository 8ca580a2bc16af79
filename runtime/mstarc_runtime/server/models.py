"""`/v1/models`: the one model that is served, with what it takes, makes and lets one choose."""

from collections.abc import Mapping
from typing import Any

from mstarc_runtime.errors import RuntimeFailure, did_you_mean
from mstarc_runtime.loader import Declared, LoadedPlan
from mstarc_runtime.server.body import field
from mstarc_runtime.server.service import Service


def check_model(plan: LoadedPlan, content: Mapping[str, Any]) -> None:
    """Fails with MS9218 if the request is for another model. An empty name is none."""
    name = field(content, "model", "text") or plan.model
    if name != plan.model:
        raise RuntimeFailure(
            "MS9218",
            f"there is no model `{name}` here",
            notes=[f"there is `{plan.model}`"],
            helps=did_you_mean(name, [plan.model]),
        )


def model(service: Service) -> dict[str, Any]:
    """The model, with more than OpenAI's clients ask for."""
    plan = service.plan
    return {
        "id": plan.model,
        "object": "model",
        "created": int(service.began_s),
        "owned_by": "mstarc",
        "inputs": [_entry(entry) for entry in plan.inputs],
        "outputs": [_entry(entry) for entry in plan.outputs],
        "options": {entry.name: option_schema(entry) for entry in plan.options},
        "routes": list(service.abilities.routes),
        "max_requests": service.placement.max_requests,
        "placement": service.placement.name,
    }


def option_schema(option: Declared) -> dict[str, Any]:
    """An option in the words of JSON Schema."""
    kinds = {"int": "integer", "float": "number", "bool": "boolean", "str": "string"}
    schema: dict[str, Any] = {"type": kinds[option.type], "default": option.default}
    if option.domain is not None and option.domain[0] == "range":
        schema |= {"minimum": option.domain[1], "maximum": option.domain[2]}
    elif option.domain is not None:
        schema["enum"] = list(option.domain[1:])
    return schema


def _entry(declared: Declared) -> dict[str, Any]:
    return {"name": declared.name, "type": declared.type, "optional": declared.optional}

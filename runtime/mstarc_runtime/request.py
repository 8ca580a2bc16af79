"""What a person asks for → requests that a plan accepts.

A JSON file or options of the command line → inputs read from files, options of the right kind, a
seed, the outputs that are wanted. A file holds one request or a list of them:

    {"inputs": {"question": {"file": "question.wav"}}, "options": {"max_tokens": 64}, "seed": 1}

`inputs` gives text as it is; `{"file": …}` reads a file, relative to the request's own (`given` has
the other kinds). `wants` names outputs, `name` the folder of the answer among several.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from mstarc_runtime.errors import RuntimeFailure, did_you_mean, not_opened
from mstarc_runtime.given import read_given
from mstarc_runtime.loader import Declared, LoadedPlan
from mstarc_runtime.plan_api import Admission, Part, RequestRefused

_KEYS = ("inputs", "options", "seed", "wants", "name")
_YES = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

_MOST_SHOWN = 60
_LEAST_NUMBER = -(2**63)
_GREATEST_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    """A request with its inputs read. `notes` say what was done to them."""

    name: str
    inputs: Mapping[str, Any]
    options: Mapping[str, Any]
    wants: frozenset[str]
    seed: int
    notes: tuple[str, ...] = ()

    def admit(self, plan: LoadedPlan) -> Admission:
        """What the plan decides for it. Fails with MS9213."""
        try:
            named = _as_fields(plan.request_class, {**self.inputs, **self.options})
            request = plan.request_class(**named, wants=self.wants)
            plan.check(request)
            admission = plan.admit(request)
        except RequestRefused as refused:
            message = f"`{refused.field}` {refused}"
            if refused.field in self.options:
                message += f", and is {_written(self.options[refused.field])}"
            raise RuntimeFailure("MS9213", message) from refused
        except ArithmeticError as error:
            # What a spec computes of options may have no value for some that it allows.
            raise RuntimeFailure(
                "MS9213",
                f"nothing can be computed of these options: {error}",
                notes=[f"`{name}` is {_written(value)}" for name, value in self.options.items()],
                helps=["give others, or let the spec allow fewer: `opt name : int = … in 2 .. 50`"],
            ) from error
        self._check_numbers(admission)
        self._check_texts()
        return admission

    def _check_numbers(self, admission: Admission) -> None:
        """Whole numbers go to processes and devices that have 64 bits for them."""
        for name, value in {**admission.options, **admission.bounds, "seed": self.seed}.items():
            for number in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(number, int) and not _LEAST_NUMBER <= number <= _GREATEST_NUMBER:
                    raise RuntimeFailure(
                        "MS9213",
                        f"`{name}` is {_short(number)}",
                        notes=[f"whole numbers are {_LEAST_NUMBER} .. {_GREATEST_NUMBER}"],
                    )

    def _check_texts(self) -> None:
        """A text of JSON may have halves of letters (`"\\ud800"`), which no process can be told."""
        for name, value in {**self.inputs, **self.options}.items():
            for part in value if isinstance(value, (list, tuple)) else (value,):
                texts = (part.role, part.value) if isinstance(part, Part) else (part,)
                if not all(_is_text(text) for text in texts if isinstance(text, str)):
                    raise RuntimeFailure(
                        "MS9213",
                        f"`{name}` holds what is no letter",
                        notes=["a half of a pair (U+D800 .. U+DFFF) stands alone in it"],
                    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as it was written. `folder` is what its paths are relative to."""

    name: str = "0"
    inputs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    wants: Sequence[str] = ()
    seed: int | None = None
    folder: Path = Path()


def read_request_file(path: Path) -> list[Asked]:
    """The requests of a JSON file. Fails with MS9201 or MS9214."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise not_opened(path, error) from error
    except UnicodeDecodeError as error:
        raise RuntimeFailure("MS9214", f"`{path}` is not a text in UTF-8") from error
    except ValueError as error:
        raise RuntimeFailure("MS9214", f"`{path}` is not JSON", notes=[str(error)]) from error
    except RecursionError as error:
        raise RuntimeFailure("MS9214", f"`{path}` is nested too deeply") from error
    entries = content if isinstance(content, list) else [content]
    if not entries:
        raise RuntimeFailure("MS9214", f"`{path}` holds no request")
    return [_asked(entry, index, path) for index, entry in enumerate(entries)]


def prepare(plan: LoadedPlan, asked: Asked, *, seed: int | None = None) -> PreparedRequest:
    """Reads the inputs and checks every name. Fails with MS9201 … MS9216."""
    inputs, notes = _read_inputs(plan, asked)
    return prepare_read(plan, asked, inputs, notes=notes, seed=seed)


def prepare_read(
    plan: LoadedPlan,
    asked: Asked,
    inputs: Mapping[str, Any],
    *,
    notes: Sequence[str] = (),
    seed: int | None = None,
) -> PreparedRequest:
    """A request whose inputs are read; checks options and outputs. Fails with MS9212 … MS9215."""
    options = {
        name: _option(find_declared(plan.options, name, "MS9212", "option"), value)
        for name, value in asked.options.items()
    }
    chosen = seed if seed is not None else asked.seed
    is_declared = any(option.name == "seed" for option in plan.options)
    if chosen is not None and is_declared and "seed" not in options:
        options["seed"] = chosen
    for name in asked.wants:
        find_declared(plan.outputs, name, "MS9215", "output")
    wants = frozenset(asked.wants or (out.name for out in plan.outputs if not out.optional))
    return PreparedRequest(
        name=asked.name,
        inputs=inputs,
        options=options,
        wants=wants,
        seed=chosen or 0,
        notes=tuple(notes),
    )


def _asked(entry: Any, index: int, path: Path) -> Asked:
    if not isinstance(entry, dict):
        raise RuntimeFailure("MS9214", f"request {index} of `{path}` is not a JSON object")
    for key in entry:
        if key not in _KEYS:
            raise RuntimeFailure(
                "MS9214",
                f"request {index} of `{path}` has an unknown key `{key}`",
                notes=[f"known: {', '.join(_KEYS)}"],
                helps=did_you_mean(key, _KEYS),
            )
    kinds = {"inputs": dict, "options": dict, "wants": list, "name": str, "seed": int}
    for key, kind in kinds.items():
        if key in entry and not _is_of_kind(entry[key], kind):
            raise RuntimeFailure(
                "MS9214",
                f"`{key}` of request {index} in `{path}` is not of its kind",
                notes=[f"it must be a JSON {_JSON_NAMES[kind]}"],
            )
    name = str(entry.get("name", index))
    if not name or Path(name).name != name or name in (".", "..") or "\0" in name:
        raise RuntimeFailure("MS9214", f"`{name}` in `{path}` can't be the name of a folder")
    return Asked(
        name=name,
        inputs=entry.get("inputs", {}),
        options=entry.get("options", {}),
        wants=entry.get("wants", ()),
        seed=entry.get("seed"),
        folder=path.parent,
    )


_JSON_NAMES = {dict: "object", list: "array of strings", str: "string", int: "whole number"}


def _is_of_kind(value: Any, kind: type[Any]) -> bool:
    if kind is list:
        return isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    return isinstance(value, kind) and not isinstance(value, bool)


def _read_inputs(plan: LoadedPlan, asked: Asked) -> tuple[dict[str, Any], list[str]]:
    inputs: dict[str, Any] = {}
    notes: list[str] = []
    for name, given in asked.inputs.items():
        declared = find_declared(plan.inputs, name, "MS9210", "input")
        inputs[name], said = read_given(declared, given, asked.folder)
        notes.extend(said)
    for declared in plan.inputs:
        if declared.name not in inputs and not declared.optional:
            raise RuntimeFailure(
                "MS9211",
                f"the request has no input `{declared.name}`",
                notes=[f"it is `{declared.type}`"],
                helps=[f"give it with `--input {declared.name}=…`"],
            )
    return inputs, notes


def _option(declared: Declared, given: Any) -> Any:
    """An option's value, of text (a command line's) or of JSON."""
    kind = declared.type
    if kind == "str" and isinstance(given, str):
        return given
    if kind == "bool" and isinstance(given, bool):
        return given
    if kind == "bool" and isinstance(given, str) and given.lower() in _YES:
        return _YES[given.lower()]
    number = _number(given) if kind in ("int", "float") else None
    if kind == "int" and isinstance(number, int):
        return number
    if kind == "float" and number is not None:
        # A whole number may be larger than any float.
        with suppress(OverflowError):
            return float(number)
    shown = given if isinstance(given, str) else json.dumps(given)
    raise RuntimeFailure(
        "MS9213",
        f"`{declared.name}` can't be `{shown}`",
        notes=[f"it is an option of `{kind}`, {declared.default!r} by default"],
    )


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _as_fields(kind: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """By the names of a class's fields: behind one that means something in Python stands `_`.

    What is no dataclass takes all as they are called.
    """
    known = {each.name for each in fields(kind)} if is_dataclass(kind) else given.keys()
    return {name if name in known else f"{name}_": value for name, value in given.items()}


def _written(value: Any) -> str:
    """An option's value as JSON, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _short(number: int) -> str:
    """A number as text, which Python makes of no more than some thousand digits.

    >>> _short(12), _short(10**5000)
    ('12', 'a number of more than 16000 bits')
    """
    bits = number.bit_length()
    return str(number) if bits < 200 else f"a number of more than {bits // 1000 * 1000} bits"


def _number(given: Any) -> int | float | None:
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        return given
    if not isinstance(given, str):
        return None
    for kind in (int, float):
        try:
            return kind(given)
        except ValueError:
            continue
    return None


def find_declared(declared: Sequence[Declared], name: str, code: str, what: str) -> Declared:
    """The input, output or option of this name. Fails with `code` and the nearest names."""
    for entry in declared:
        if entry.name == name:
            return entry
    names = [entry.name for entry in declared]
    known = ", ".join(f"`{known}`" for known in names) or "none"
    raise RuntimeFailure(
        code,
        f"the plan has no {what} `{name}`",
        notes=[f"it has {known}"],
        helps=did_you_mean(name, names),
    )

"""The module that a spec's `impl` names: one of ours, or else one on Python's path.

`"llama:Decoder"` → `mstarc_runtime.models.llama`; `"my_models.echo:Decoder"` → `my_models.echo`, as
`import` would find it. Ours are first, so that what is installed beside does not change them.
"""

import importlib
import importlib.util
import pkgutil
from types import ModuleType

import mstarc_runtime.models


def shipped_modules() -> list[str]:
    """The names of our modules, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(mstarc_runtime.models.__path__))


def find_module(name: str) -> ModuleType | None:
    """The module, imported; None where there is none. What the module itself raises is raised."""
    if name in shipped_modules():
        return importlib.import_module(f"mstarc_runtime.models.{name}")
    try:
        found = importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):
        return None
    return importlib.import_module(name) if found is not None else None

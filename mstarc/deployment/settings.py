"""Settings of a deployment, and what stands above the file: the environment and the command line.

A setting is known by its key as a file writes it (`kv_cache.page_size`). Of several values the one
from the command line counts, then the environment's, then the file's, then the default; a value of
`config` has the spec's and the variant's below the file's.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from mstarc.deployment.keys import PAGE_LABEL, page_size_remedy
from mstarc.deployment.model import Deployment, Kwarg, Named, Number
from mstarc.deployment.sizes import ConfigScalar, ConfigValue
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label, did_you_mean
from mstarc.records import dataclass
from mstarc.source import SourceFile, Span

Origin: TypeAlias = Literal["environment", "command line"]

ENVIRONMENT = "MSTARC_"
DEVICES_VARIABLE = "MSTARC_DEVICES"
"""What `--placement` would say."""

KWARGS = "model_kwargs."


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One number that a deployment may set, `least` or more. `field` is the deployment's, `default`
    says what else holds."""

    key: str
    field: str
    meaning: str
    default: str
    least: int = 1

    @property
    def variable(self) -> str:
        """The environment variable that gives it."""
        return variable_of(self.key)


SETTINGS: tuple[Setting, ...] = (
    Setting(
        key="max_seq_len",
        field="max_seq_len",
        meaning="the rows of a request's longest context",
        default="that of the device kind",
    ),
    Setting(
        key="max_concurrent_requests",
        field="max_requests",
        meaning="how many requests run at once",
        default="that of the device kind",
    ),
    Setting(
        key="stretch",
        field="stretch",
        meaning="the most passes of a loop at which the host looks once; 0: it looks at each",
        default="4, and on CPUs 0",
        least=0,
    ),
    Setting(
        key="kv_cache.max_num_pages",
        field="max_pages",
        meaning="the pages of each pool on each rank",
        default="what the requests need and the device has room for",
    ),
    Setting(
        key="kv_cache.page_size",
        field="page_tokens",
        meaning="the rows of a page",
        default="16, and 128 where `max_num_pages` is given",
    ),
    Setting(
        key="kv_cache.prefill_tokens",
        field="prefill_tokens",
        meaning="the most rows of prompts that one step reads, in whole pages",
        default="2048, and 512 on CPUs",
    ),
    Setting(
        key="kv_cache.cpu_offload_pages",
        field="lent_pages",
        meaning="pages of each pool that requests which wait may have in host memory",
        default="0: as many requests run at once as have room when they are as expected",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSetting:
    """A value from outside the file. `file` holds its text alone, so that a finding can show it."""

    key: str
    value: str
    origin: Origin
    file: SourceFile
    span: Span


def variable_of(key: str) -> str:
    """The environment variable of a key.

    >>> variable_of("kv_cache.page_size")
    'MSTARC_KV_CACHE_PAGE_SIZE'
    """
    return ENVIRONMENT + re.sub(r"\W", "_", key).upper()


def setting_of(key: str) -> Setting | None:
    """The setting with this key, also without the part before its last dot."""
    found = [setting for setting in SETTINGS if key in (setting.key, setting.key.split(".")[-1])]
    return found[0] if found else None


def from_environment(environment: Mapping[str, str], sink: DiagnosticSink) -> list[GivenSetting]:
    """The settings that variables give. A variable that is nearly one of ours is an error."""
    known = {setting.variable: setting.key for setting in SETTINGS}
    prefix = variable_of(KWARGS)
    found = []
    for name, value in sorted(environment.items()):
        key = known.get(name)
        if key is None and name.startswith(prefix):
            key = KWARGS + name.removeprefix(prefix).lower()
        file = SourceFile(path=f"${name}", text=value)
        span = Span(path=file.path, start=0, end=len(value))
        if key is not None:
            given = GivenSetting(key=key, value=value, origin="environment", file=file, span=span)
            found.append(given)
        elif name.startswith(ENVIRONMENT) and name != DEVICES_VARIABLE:
            near = did_you_mean(name, (*known, DEVICES_VARIABLE))
            if not near:
                continue  # another's: the runtime has some of its own
            message = f"no setting is given by the environment variable `{name}`"
            sink.report(_unknown(message, span, near))
    return found


def from_command_line(texts: Iterable[str], sink: DiagnosticSink) -> list[GivenSetting]:
    """The settings of `--set KEY=VALUE`, in order; later ones stand above earlier ones."""
    found = []
    for text in texts:
        key, equals, value = text.partition("=")
        setting = setting_of(key.strip())
        file = SourceFile(path=f"--set {text}", text=text)
        whole = Span(path=file.path, start=0, end=len(text))
        if not equals:
            primary = Label(span=whole, text="no `=`")
            help_ = "write `--set key=value`"
            message = f"`--set {text}` gives no value"
            found_wrong = Diagnostic(code="MS0633", message=message, primary=primary)
            sink.report(found_wrong.help(help_))
            continue
        name = setting.key if setting is not None else key.strip()
        if setting is None and not name.startswith(KWARGS):
            near = did_you_mean(name, [s.key for s in SETTINGS])
            span = Span(path=file.path, start=0, end=len(key))
            if near or "." in name:
                sink.report(_unknown(f"there is no setting `{name}`", span, near))
                continue
            name = KWARGS + name  # a value of the spec's config
        span = Span(path=file.path, start=len(key) + 1, end=len(text))
        found.append(
            GivenSetting(key=name, value=value, origin="command line", file=file, span=span)
        )
    return found


def settled(
    deployment: Deployment, given: Iterable[GivenSetting], sink: DiagnosticSink
) -> Deployment:
    """The deployment with what stands above its values; wrong ones are reported (MS0605)."""
    numbers: dict[str, Number] = {}
    kwargs = {kwarg.name.value: kwarg for kwarg in deployment.kwargs}
    for entry in given:  # lowest first
        setting = setting_of(entry.key)
        if setting is None:
            name = entry.key.removeprefix(KWARGS)
            kwargs[name] = Kwarg(
                name=Named(value=name, span=entry.span),
                value=config_value(entry.value),
                span=entry.span,
            )
            continue
        digits = entry.value.strip().replace("_", "")
        if not (digits.isascii() and digits.isdigit()) or int(digits) < setting.least:
            message = f"expected a whole number of at least {setting.least}, found `{entry.value}`"
            primary = Label(span=entry.span, text=f"for `{setting.key}`")
            sink.report(Diagnostic(code="MS0605", message=message, primary=primary))
            continue
        remedy = page_size_remedy(int(digits)) if setting.field == "page_tokens" else None
        if remedy is not None:
            message = f"the kernels are built for no pages of {int(digits)} rows"
            primary = Label(span=entry.span, text=PAGE_LABEL)
            sink.report(
                Diagnostic(code="MS0605", message=message, primary=primary, helps=(remedy,))
            )
            continue
        numbers[setting.field] = Number(value=int(digits), span=entry.span)
    return replace(
        deployment,
        kwargs=tuple(kwargs.values()),
        max_seq_len=numbers.get("max_seq_len", deployment.max_seq_len),
        max_requests=numbers.get("max_requests", deployment.max_requests),
        stretch=numbers.get("stretch", deployment.stretch),
        max_pages=numbers.get("max_pages", deployment.max_pages),
        page_tokens=numbers.get("page_tokens", deployment.page_tokens),
        prefill_tokens=numbers.get("prefill_tokens", deployment.prefill_tokens),
        lent_pages=numbers.get("lent_pages", deployment.lent_pages),
    )


def settled_alone(given: Sequence[GivenSetting], sink: DiagnosticSink) -> Deployment | None:
    """The settings without a file: a deployment that places nothing. None without any."""
    if not given:
        return None
    place = given[0].span
    empty = Deployment(
        name="", path="", model=Named(value="", span=place), groups=(), groups_span=place
    )
    return settled(empty, given, sink)


def config_value(text: str) -> ConfigValue:
    """What a text means as a value of config: `15`, `0.5`, `true`, `[1, 2]`, else the text."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return tuple(_scalar(item.strip()) for item in text[1:-1].split(",") if item.strip())
    return _scalar(text)


def _scalar(text: str) -> ConfigScalar:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _unknown(message: str, span: Span, near: tuple[str, ...]) -> Diagnostic:
    found = Diagnostic(
        code="MS0633", message=message, primary=Label(span=span, text="nothing reads it")
    )
    if near:
        return found.help(f"did you mean {' or '.join(f'`{name}`' for name in near)}?")
    return found.help(f"there are {', '.join(f'`{setting.key}`' for setting in SETTINGS)}")

"""The words of `mstarc run` → its options; a wrong word → MS9010 and the nearest right one."""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from mstarc_runtime.errors import RuntimeFailure, did_you_mean, render
from mstarc_runtime.loader import load_placement, load_plan, usual_placement
from mstarc_runtime.run_choices import (
    CASCADES,
    DEFAULT_JOINS,
    DEFAULT_THREADS,
    HIGH_WATER_MARK,
    JOINS,
    START_TIMEOUT_S,
    WAYS,
)
from mstarc_schedule.batching import DEFAULT_TILE_ROWS

_HELP = "`mstarc run --help` shows what can be asked"


class Parser(argparse.ArgumentParser):
    """Fails with MS9010 in place of ending the process."""

    def error(self, message: str) -> NoReturn:
        said = re.sub(r"^argument (\S+): ", r"`\1`: ", message.replace("'", "`"))
        raise RuntimeFailure("MS9010", said, helps=[_help(self)])


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """The options that are given, and the others' defaults. Fails with MS9010."""
    given = list(arguments)
    return parse_words(_parser(), given[1:] if given[:1] == ["run"] else given)


def look_first(parse: Callable[[Sequence[str]], argparse.Namespace]) -> None:
    """Ends the process where its words, its plan or its placement are wrong.

    For before torch is loaded, which takes seconds: whoever mistypes need not wait for it.
    """
    try:
        options = parse(sys.argv[1:])
        plan = load_plan(options.plan)
        load_placement(plan, options.placement or usual_placement(plan))
    except RuntimeFailure as failure:
        with suppress(OSError):
            print(render(failure), file=sys.stderr, flush=True)
        sys.exit(2)


def parse_words(parser: argparse.ArgumentParser, given: Sequence[str]) -> argparse.Namespace:
    """The options of a parser to which `add_run_options` has added. Fails with MS9010."""
    options, unknown = parser.parse_known_args(given)
    if unknown:
        raise _unknown(unknown[0], parser)
    if options.plan is None:
        helps = ["`mstarc compile SPEC -o PLAN` makes one", _help(parser)]
        raise RuntimeFailure("MS9010", "there is no plan to run", helps=helps)
    for name in ("threads", "tile_rows", "high_water_mark", "start_timeout"):
        if not getattr(options, name) >= 1:
            said = f"`--{name.replace('_', '-')}` is at least 1"
            raise RuntimeFailure("MS9010", said, helps=[_help(parser)])
    return options


def name_and_value(text: str, option: str) -> tuple[str, str]:
    """`NAME=VALUE` in its parts. Fails with MS9010."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise RuntimeFailure(
            "MS9010", f"`{option} {text}` is not of the form NAME=VALUE", helps=[_HELP]
        )
    return name, value


def names_and_values(texts: Iterable[str], option: str) -> dict[str, str]:
    """`NAME=VALUE` each, by name. Fails with MS9010, also where a name is given twice."""
    found: dict[str, str] = {}
    for name, value in (name_and_value(text, option) for text in texts):
        if name in found:
            raise RuntimeFailure("MS9010", f"`{option} {name}=…` is given twice", helps=[_HELP])
        found[name] = value
    return found


def bucket_sizes(text: str) -> tuple[int, ...]:
    """Sizes of batches, as they are written: `1,4,16`. Raises ArgumentTypeError."""
    try:
        sizes = tuple(int(size) for size in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a list of sizes, such as `1,4,16`")
    return sizes


def _unknown(word: str, parser: argparse.ArgumentParser) -> RuntimeFailure:
    if not word.startswith("-"):
        return RuntimeFailure("MS9010", f"`{word}` is one word too many", helps=[_help(parser)])
    name = word.partition("=")[0]
    known = re.findall(r"--[a-z-]+", parser.format_usage())
    helps = [*did_you_mean(name, known), _help(parser)]
    return RuntimeFailure("MS9010", f"there is no option `{name}`", helps=helps)


def _help(parser: argparse.ArgumentParser) -> str:
    return f"`{parser.prog} --help` shows what can be asked"


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="mstarc run", description="Execute a plan.", allow_abbrev=False)
    parser.add_argument("plan", type=Path, nargs="?", help="the folder that `mstarc compile` wrote")
    parser.add_argument("--placement", metavar="NAME", help="where it runs, e.g. `cpu` or `2xcpu`")
    parser.add_argument("--request", type=Path, metavar="FILE", help="a JSON file of requests")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an input of one request: a text, a path of a recording, or @FILE for a text's file",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option that the spec declares",
    )
    parser.add_argument(
        "--want",
        action="append",
        default=[],
        metavar="OUTPUT",
        help="an output to make (all that are not optional, unless one is named)",
    )
    parser.add_argument("--out", type=Path, metavar="PATH", help="a folder, or a .wav file")
    parser.add_argument(
        "--seed", type=int, metavar="N", help="what random draws depend on (0 unless given)"
    )
    add_run_options(parser)
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="a timeline of the run, for Perfetto or Chrome"
    )
    return parser


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """The words that say how ranks run, whoever asks them."""
    parser.add_argument(
        "--deterministic",
        action=argparse.BooleanOptionalAction,
        help="a request's bytes do not depend on others (the default on CPUs)",
    )
    parser.add_argument("--threads", type=int, default=DEFAULT_THREADS, help="of each rank")
    parser.add_argument(
        "--tile-rows", type=int, default=DEFAULT_TILE_ROWS, help="rows of a deterministic step"
    )
    parser.add_argument(
        "--high-water-mark",
        type=int,
        default=HIGH_WATER_MARK,
        metavar="N",
        help="messages under way between two processes before a rank stops making more",
    )
    parser.add_argument(
        "--weights",
        action="append",
        default=[],
        metavar="NODE=SOURCE",
        help="other weights for a node, e.g. `lm=random:7` or `lm=./folder`",
    )
    parser.add_argument(
        "--buckets",
        type=bucket_sizes,
        default=(),
        metavar="1,4,16",
        help="sizes that batches are padded to and captured at, instead of the plan's",
    )
    parser.add_argument(
        "--eager",
        action="append",
        default=[],
        metavar="REGION",
        help="a capture region that is run call by call all the same",
    )
    parser.add_argument(
        "--require-graphs",
        action="store_true",
        help="do not start if a region would be run call by call at any size",
    )
    parser.add_argument(
        "--no-shared-prompts",
        dest="share_prompts",
        action="store_false",
        help="read every prompt whole, also where another request's begins with the same tokens",
    )
    parser.add_argument(
        "--cascade",
        choices=CASCADES,
        default="auto",
        help="read rows of prompts that requests share once for all of them; `auto`: in steps where"
        " contexts are long, in prompts where it saves enough",
    )
    parser.add_argument(
        "--streams",
        choices=WAYS,
        default="auto",
        help="from rank to rank through the host, or by GPUs into one another's memory; `auto`: so"
        " where it can be, and says so",
    )
    parser.add_argument(
        "--joins",
        choices=JOINS,
        default=DEFAULT_JOINS,
        help="what puts few numbers of shards on GPUs together: a kernel that writes into the other"
        f" GPUs' memory where it can be, or NCCL (default {DEFAULT_JOINS})",
    )
    parser.add_argument(
        "--start-timeout",
        type=float,
        default=START_TIMEOUT_S,
        metavar="SECONDS",
        help="how long ranks may take to load",
    )

"""REPORT.md: what was decided, and why."""

from mstarc.analysis.bounds import upper_bound
from mstarc.analysis.rates import new_items
from mstarc.codegen.views.amounts import amount_of_bytes, count_of, share
from mstarc.codegen.views.docs import step_words
from mstarc.codegen.views.layouts import device_words, processes, where_words
from mstarc.codegen.views.reasons import Knowledge, Reasons
from mstarc.codegen.views.tables import table
from mstarc.ir.graph import Each, Machine, Policy, Program, Stream
from mstarc.ir.text import format_type
from mstarc.ir.text.print_exprs import format_tail
from mstarc.ir.walking import statements_of
from mstarc.plan.plan import HopPlan, PlacedPlan, Plan, RankPlan, RunStep, Step
from mstarc.plan.words import policy_text, spec_expr
from mstarc.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with the lines below it."""

    heading: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportView:
    """Everything in `REPORT.md`."""

    title: str
    intro: tuple[str, ...]
    sections: tuple[Section, ...]


def report_view(plan: Plan, known: Knowledge) -> ReportView:
    """The view of the report."""
    model = plan.program.model
    names = [placed.placement.name for placed in plan.placements]
    sections = [_summary(plan), _machines(plan), _streams(plan)]
    for placed in plan.placements:
        sections += _placement(plan, placed, known)
    return ReportView(
        title=f"{model}: what was decided, and why",
        intro=(
            f"Compiled by mstarc {plan.version} from `{plan.spec}` for "
            f"{', '.join(f'`{name}`' for name in names)}. The same spec gives the same bytes.",
            "",
            f"![The walks of {model}, their ranks, capture regions and streams](graph.svg)",
        ),
        sections=tuple(sections),
    )


def _steps(placed: PlacedPlan) -> list[tuple[RankPlan, Step]]:
    pairs = [(rank, step) for rank in placed.ranks for step in rank.steps]
    return sorted(pairs, key=lambda pair: pair[1].id)


def _hops(placed: PlacedPlan) -> list[tuple[RankPlan, HopPlan]]:
    return [(rank, step) for rank, step in _steps(placed) if isinstance(step, HopPlan)]


def _summary(plan: Plan) -> Section:
    rows = []
    for placed in plan.placements:
        program, placement = placed.program, placed.placement
        fullest = max(
            sum(row.bytes for row in program.memory if row.rank == device.rank)
            for device in placement.devices
        )
        rows.append(
            [
                f"`{placement.name}`",
                str(len(placed.ranks)),
                str(len(_steps(placed))),
                str(len(program.regions)),
                str(len(program.uncaptured)),
                str(len(_hops(placed))),
                amount_of_bytes(fullest),
                str(placement.max_requests),
            ]
        )
    head = ["placement", "ranks", "steps", "regions", "calls outside", "hops", "fullest rank"]
    head.append("requests at once")
    lines = table(head, rows, " rrrrrrr")
    note = "A GPU captures a region once, as a CUDA graph; a CPU runs it call by call."
    return Section(heading="## In short", lines=(*lines, "", note))


def _machines(plan: Plan) -> Section:
    lines: list[str] = []
    for machine in plan.program.machines:
        lines += [f"- {_machine_line(machine)}"]
    bounds = []
    for name, bound in plan.admission.bounds:
        most = upper_bound(plan.program, bound)
        bounds.append([f"`{name}`", f"`{spec_expr(bound)}`", "?" if most is None else str(most)])
    if bounds:
        lines += ["", "Loops whose passes are steps; the host counts no pass beyond the bound:", ""]
        lines += table(["loop", "bound", "at most"], bounds, "  r")
    return Section(heading="## Machines", lines=tuple(lines))


def _machine_line(machine: Machine) -> str:
    states = " → ".join([*(state.name for state in machine.states), "done"])
    when = ""
    if machine.condition is not None:
        when = f", in requests where `{spec_expr(machine.condition)}`"
    return f"`{machine.name}`: {states}{when}"


def _streams(plan: Plan) -> Section:
    streams = plan.placements[0].program.streams
    if not streams:
        return Section(heading="## Streams", lines=("None.",))
    rows = [
        [
            f"`{stream.name}`",
            f"`{format_type(stream.item)}`",
            f"{stream.producer} → {stream.consumer}",
            f"`{policy_text(stream.policy)}`",
            f"{format_tail(stream.tail) if stream.tail else 'none'}, "
            f"empty: {stream.empty or 'nothing is read'}",
            str(stream.capacity),
        ]
        for stream in streams
    ]
    head = ["stream", "item", "from, to", "chunk", "tail", "buffer"]
    lines = [*table(head, rows, "     r"), ""]
    lines += [f"- `{stream.name}`: {_stream_words(stream)}" for stream in streams]
    lines += [f"- {_held_back(plan.program, each)}" for each in _reads_with_last(plan.program)]
    return Section(heading="## Streams", lines=tuple(lines))


def _reads_with_last(program: Program) -> list[Each]:
    bodies = [state.body for machine in program.machines for state in machine.states]
    found = [statement for body in bodies for statement in statements_of(body)]
    return [each for each in found if isinstance(each, Each) and each.last is not None]


def _held_back(program: Program, each: Each) -> str:
    """What it costs to know which chunk is the last."""
    stream = next(stream for stream in program.streams if stream.name == each.streams[0])
    policy = each.policy or stream.policy
    items = f"{'at most ' if policy.kind == 'until' else ''}{count_of(new_items(policy), 'item')}"
    names = " and ".join(f"`{name}`" for name in each.streams)
    return (
        f"{names} with `{each.last}`: each chunk is held back until the next one, {items} later, "
        "or the close; what is made of it comes so much later, and the buffer has room for one "
        "chunk more."
    )


def _stream_words(stream: Stream) -> str:
    policy = stream.policy
    first = policy.ramp[0] if policy.ramp else policy.size
    span = policy.size + policy.context
    step = policy.stride if policy.kind == "sliding" else policy.size
    at_most = "at most " if policy.kind == "until" else ""
    held = f"a read holds {at_most}{count_of(span, 'item')} and then lets {at_most}{step} go"
    room = f"{span} + {step} = {span + step}"
    if stream.capacity != span + step:
        room += f", {stream.capacity} for the producer's largest send or a cycle of machines"
    return (
        f"the first chunk comes after {at_most}{count_of(first, 'item')}{_then(policy)}; "
        f"{held}, so the buffer has room for {room} items a request, "
        "and a producer never waits for a reader that keeps up."
    )


def _then(policy: Policy) -> str:
    if policy.kind == "sliding":
        return f", the next after {policy.stride} more"
    return ""


def _placement(plan: Plan, placed: PlacedPlan, known: Knowledge) -> list[Section]:
    name = placed.placement.name
    who = processes(placed.placement)
    return [
        Section(heading=f"## Placement `{name}`", lines=_nodes(plan, placed, known)),
        *([Section(heading="### Processes", lines=who)] if who else []),
        Section(heading="### Steps", lines=_step_table(placed)),
        Section(heading="### Capture regions", lines=_regions(placed)),
        *([Section(heading="### Prompts", lines=prompts)] if (prompts := _prompts(placed)) else []),
        Section(heading="### Hops", lines=_hop_table(placed)),
        Section(heading="### Memory", lines=_memory(placed)),
    ]


def _nodes(plan: Plan, placed: PlacedPlan, known: Knowledge) -> tuple[str, ...]:
    placement = placed.placement
    reasons = Reasons(placed.program, placement, known)
    weights = {w.node: w for w in plan.weights}
    rows = []
    for node in placed.program.nodes:
        source = weights[node.name].source
        rows.append(
            [
                f"`{node.name}`",
                f"`{node.engine}`",
                where_words(placement.of(node.name)),
                reasons.load(node.name),
                f"`{source}`" if source else "none",
                reasons.why(node),
            ]
        )
    where = f"{device_words(placement)}, placed by "
    where += "exact search." if placement.source == "automatic" else f"`{placement.source}`."
    head = ["node", "engine", "rank", "of a request's time, at most", "weights", "why there"]
    folded = [f"`{public}` is a part of `{node}`" for public, node in placed.program.folded]
    parts = ("", f"{'; '.join(folded)}, as deployment files call it.") if folded else ()
    return (where, "", *table(head, rows, "  r"), *parts)


def _step_table(placed: PlacedPlan) -> tuple[str, ...]:
    names = {step.id: step.name for _, step in _steps(placed)}
    rows = []
    for rank, step in _steps(placed):
        how = ""
        if isinstance(step, RunStep):
            how = step.region if step.region is not None else step.why
        words = "; ".join(step_words(step, names))
        rows.append([str(step.id), f"`{step.name}`", str(rank.rank), words, how])
    return table(["", "step", "rank", "does", "region"], rows, "r r")


def _regions(placed: PlacedPlan) -> tuple[str, ...]:
    program = placed.program
    lines: list[str] = []
    looks = {
        step.region: str(step.stretch)
        for _, step in _steps(placed)
        if isinstance(step, RunStep) and step.stretch
    }
    if program.regions:
        rows = [
            [
                f"`{region.name}`",
                str(region.rank),
                ", ".join(f"`{site}`" for site in region.sites),
                ", ".join(map(str, region.buckets)),
                *([looks.get(region.name, "")] if looks else []),
            ]
            for region in program.regions
        ]
        head = ["region", "rank", "calls", "batch buckets", *(["stretch"] if looks else [])]
        lines += table(head, rows, " r  r"[: len(head)])
        if looks:
            lines += [
                "",
                "A stretch is the most passes of a loop at which the host looks once (`stretch` of "
                "the deployment); the next is launched before it looks.",
            ]
    if program.uncaptured:
        rows = [[f"`{call.site}`", call.reason] for call in program.uncaptured]
        lines += ["", "Calls that no region holds:", "", *table(["call", "because"], rows)]
    return tuple(lines or ["None."])


def _prompts(placed: PlacedPlan) -> tuple[str, ...]:
    """How the calls read whose rows are as many as a request says."""
    most = placed.placement.prefill_tokens
    local = {variable.name: variable.local for variable in placed.variables}
    rows: list[list[str]] = []
    for rank, step in _steps(placed):
        prompt = step.prompt if isinstance(step, RunStep) else None
        if prompt is None:
            continue
        read = f"at once: {prompt.why_whole}" if prompt.pieces is None else "in pieces"
        shared = ""
        if prompt.pieces is not None:
            names = " and ".join(f"`{local[name]}`" for name in prompt.pieces.of)
            shared = f"no: {prompt.why_own}" if prompt.why_own else f"yes: rows follow from {names}"
        row = [f"`{prompt.site}`", str(rank.rank), read, shared]
        rows += [row] if row not in rows else []
    if not rows:
        return ()
    lines = table(["call", "rank", "is read", "shares pages"], rows, " r")
    if not any(row[2] == "in pieces" for row in rows):
        return lines
    return (
        *lines,
        "",
        f"A piece has at most {most} rows (`kv_cache.prefill_tokens`); between two of them others "
        "have their turns.",
    )


def _hop_table(placed: PlacedPlan) -> tuple[str, ...]:
    hops = _hops(placed)
    if not hops:
        return ("None: every machine stays on one rank.",)
    names = {step.id: step.name for _, step in _steps(placed)}
    rows = [
        [
            names[hop.step],
            f"{rank.rank} → {hop.rank}",
            ", ".join(f"`{value}`" for value in hop.values) or "nothing",
            "as the request has it" if hop.bytes is None else amount_of_bytes(hop.bytes),
            ", ".join(f"`{node}.{what}`" for node, what in hop.contexts),
            amount_of_bytes(hop.row_bytes) if hop.row_bytes else "",
        ]
        for rank, hop in hops
    ]
    head = ["to step", "ranks", "values", "bytes", "contexts", "bytes a row"]
    if not any(hop.contexts for _, hop in hops):
        return table(head[:4], [row[:4] for row in rows])
    note = (
        "A context goes along if it is on the rank that the machine leaves, with all its rows, and "
        "is on one rank at a time: a hop in a loop takes it in the first pass, unless another hop "
        "brings it back."
    )
    return (*table(head, rows), "", note, *_to_and_fro([(rank.rank, hop) for rank, hop in hops]))


def _to_and_fro(hops: list[tuple[int, HopPlan]]) -> tuple[str, ...]:
    """A line for each context that hops take both ways between two ranks."""
    ways: dict[tuple[str, str], set[tuple[int, int]]] = {}
    for rank, hop in hops:
        for held in hop.contexts:
            ways.setdefault(held, set()).add((rank, hop.rank))
    lines = []
    for (node, what), found in sorted(ways.items()):
        for one, other in sorted(way for way in found if way[::-1] in found and way[0] < way[1]):
            if not what.startswith("sampler:"):
                lines.append(f"`{node}.{what}` goes to and fro between ranks {one} and {other}.")
    return ("", *lines) if lines else ()


def _memory(placed: PlacedPlan) -> tuple[str, ...]:
    program, placement = placed.program, placed.placement
    rows = [
        [str(row.rank), row.what.replace("_", " "), row.of, amount_of_bytes(row.bytes), row.by]
        for row in program.memory
    ]
    lines = list(table(["device", "what", "of", "bytes", "size"], rows, "r  r "))
    lines.append("")
    for device in placement.devices:
        used = sum(row.bytes for row in program.memory if row.rank == device.rank)
        lines.append(
            f"- device {device.rank}: {amount_of_bytes(used)} of "
            f"{amount_of_bytes(device.memory_bytes)} ({share(used, device.memory_bytes)})"
        )
    lines += ["", *_capacity(placed)]
    for pool in program.pools:
        lines.append(
            f"`{pool.node}` on rank {pool.rank} has {pool.pages} pages of {pool.page_tokens} rows, "
            f"{amount_of_bytes(pool.bytes_per_page)} each."
        )
    guessed = dict.fromkeys(row.of for row in program.memory if row.by == "guessed")
    if guessed:
        listed = ", ".join(f"`{name}`" for name in guessed)
        lines.append(f"Nothing says how large the weights of {listed} are: a guess by the engine.")
    return tuple(lines)


def _capacity(placed: PlacedPlan) -> tuple[str, ...]:
    """How many requests run at once, and how many have room for all that they may need."""
    placement, capacity = placed.placement, placed.program.capacity
    assert capacity is not None, "plan-memory has run"
    first = (
        f"{count_of(placement.max_requests, 'request')} run at once, with at most "
        f"{placement.max_tokens} rows in a context of each; further ones wait."
    )
    if capacity.full >= placement.max_requests:
        return (first,)
    return (
        first,
        f"Pages are for {count_of(capacity.full, 'request')} at their longest and "
        f"{capacity.expected} as expected, on device {capacity.rank}: when they run out, those of "
        "the youngest request go to host memory until others have ended.",
    )

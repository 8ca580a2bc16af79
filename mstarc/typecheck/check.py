"""Check a whole spec, one part after another."""

from mstarc.diagnostics import DiagnosticSink
from mstarc.names import Resolved
from mstarc.typecheck.cache_rows import check_cache_rows
from mstarc.typecheck.constants import Sizes, config_values, variant_of
from mstarc.typecheck.contexts import check_contexts
from mstarc.typecheck.divisors import check_divisors
from mstarc.typecheck.ends import check_ends
from mstarc.typecheck.leftovers import report_unused
from mstarc.typecheck.links import find_links
from mstarc.typecheck.machines import check_machines
from mstarc.typecheck.nodes import check_nodes
from mstarc.typecheck.outputs import check_outputs
from mstarc.typecheck.pictures import check_sides
from mstarc.typecheck.reads import check_reads
from mstarc.typecheck.request import check_config_types, check_request
from mstarc.typecheck.state import State
from mstarc.typecheck.streams import check_streams, has_unknown_names
from mstarc.typecheck.tables import check_all_entries
from mstarc.typecheck.typed import Typed
from mstarc.typecheck.walks import check_walks, declare_walks

_NO_SIZES = Sizes()


def check(
    resolved: Resolved,
    sink: DiagnosticSink,
    sizes: Sizes = _NO_SIZES,
    *,
    before: Typed | None = None,
) -> Typed:
    """The checked spec. With errors in `sink` it is good for looking at, not for lowering.

    `before` is the same spec, right with other sizes: what no number decides is left out then,
    which outputs are emitted and which values are set on every way through the machines.
    """
    state = State(resolved=resolved, sink=sink, config=config_values(resolved, sizes, sink))
    links = before.links if before is not None else find_links(resolved)
    check_config_types(state)
    check_request(state)
    check_nodes(state)
    check_streams(links, state)
    declare_walks(links, state)
    check_walks(state)
    ways = check_machines(state)
    check_contexts(links, state)
    check_ends(state)
    if not any(found.code == "MS0325" for found in sink.diagnostics):
        # These put lets in, of which none may be computed from itself.
        check_divisors(state)
        check_sides(state)
        check_all_entries(state)
    check_cache_rows(state)
    if before is None and not links.recursive and not has_unknown_names(sink):
        # These follow runs of walks to their ends, which a circle does not have. With a name that
        # means nothing, what seems to be missing may be what was misspelt.
        check_outputs(ways, links, state)
        check_reads(ways, links, state)
    report_unused(state)
    return Typed(
        resolved=resolved,
        variant=variant_of(resolved.spec, sizes.variant),
        links=links,
        config=state.config,
        fields=state.fields,
        options=state.options,
        nodes=state.nodes,
        streams=state.streams,
        walks=state.walks,
        types=state.types,
        arguments=state.arguments,
        contexts=state.contexts,
        over=state.over,
        policies=state.policies,
        registers=state.registers,
        unsure=frozenset(state.unsure),
    )

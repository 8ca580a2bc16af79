"""Settings that are accepted and decide nothing: each is said, none is passed over."""

from mstarc.deployment.model import Deployment
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.ir.graph import Program
from mstarc.source import Span

_REMEDY = "leave it out, or allow it: `# mstarc: allow[MS0630] for another system`"


def report_idle(
    name: str, span: Span, why: str, sink: DiagnosticSink, *, remedy: str = _REMEDY
) -> None:
    """Report (MS0630) a setting that decides nothing."""
    diagnostic = Diagnostic(
        code="MS0630",
        message=f"`{name}` changes nothing",
        primary=Label(span=span, text="nothing here acts on it"),
        notes=(why,),
        helps=(remedy,),
    )
    sink.report(diagnostic)


def report_idle_settings(deployment: Deployment, program: Program, sink: DiagnosticSink) -> None:
    """Report what a deployment says of KV caches, where the model keeps none."""
    if any(node.engine == "kv_cache" for node in program.nodes):
        return
    for name, number in (
        ("max_seq_len", deployment.max_seq_len),
        ("max_num_pages", deployment.max_pages),
        ("page_size", deployment.page_tokens),
        ("prefill_tokens", deployment.prefill_tokens),
        ("cpu_offload_pages", deployment.lent_pages),
    ):
        if number is not None:
            report_idle(name, number.span, f"no node of `{program.model}` keeps a KV cache", sink)

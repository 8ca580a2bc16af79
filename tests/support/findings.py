"""One fixed set of findings that every output format is tested with."""

from mstarc.diagnostics import Diagnostic, Edit, Fix, Label
from mstarc.diagnostics.render import Report
from mstarc.source import SourceFile, Span

SPEC = SourceFile(
    path="specs/orpheus.mstar",
    text="""\
mstar 1
model orpheus

node codec : stateless {
\timpl "orpheus:SnacDecoder"   # 100% of it, “quoted”
\top decode(codes: i64[28]) -> (pcm: f32[2048])
}

stream codes : i64 chunk sliding(window = 28, stride = 35) tail drop

walk vocode(window: i64[28]) {
  pcm = codec.decode(window)
  名前 = codec.decod(window)
  emit speech <- pcm
}
""",
)
DEPLOYMENT = SourceFile(
    path="specs/deployments/one_gpu.yaml",
    text="""\
model: orpheus
node_groups:
  - node_names: [codec, frontend]
    ranks: [0]
""",
)


def span(source: SourceFile, text: str, after: str = "") -> Span:
    """The place of `text`, at or behind the first `after`."""
    start = source.text.index(text, source.text.index(after))
    return Span(path=source.path, start=start, end=start + len(text))


def report() -> Report:
    """A finding of each shape: labels in two files, several lines, no width, no file, fixes."""
    block = SPEC.text[SPEC.text.index("node codec") : SPEC.text.index("stream")].rstrip()
    stride = "make the stride at most 28, or write `fixed(28)` for chunks that do not overlap"
    findings = (
        Diagnostic(
            code="MS0101",
            message="chunks of stream `codes` skip items",
            primary=Label(span=span(SPEC, "stride = 35"), text="moves 35 items forward"),
            labels=(
                Label(span=span(SPEC, "codes", "stream"), text="read by walk `vocode`"),
                Label(span=span(SPEC, "window = 28"), text="but a window holds 28"),
            ),
            notes=("items 28 to 34 of every 35 would never reach `codec.decode`",),
            helps=(stride,),
            fix=Fix(
                message=stride,
                edits=(Edit(span=span(SPEC, "35"), text="28"),),
                applicability="unsafe",
            ),
        ),
        Diagnostic(
            code="MS0101",
            message="node `codec` has no op `decod`",
            primary=Label(span=span(SPEC, "decod", "名前"), text="not an op of `codec`"),
            labels=(Label(span=span(SPEC, block), text="`codec` is declared here"),),
            helps=("did you mean `decode`?",),
            fix=Fix(
                message="write `decode`",
                edits=(Edit(span=span(SPEC, "decod", "名前"), text="decode"),),
                applicability="safe",
            ),
        ),
        Diagnostic(
            code="MS0101",
            message="the file ends inside a walk: 100% of it, it says",
            primary=Label(span=SPEC.end_span, text="`}` is missing"),
            notes=(
                "a note that is longer than a hundred columns is wrapped, and what follows stands "
                "under the first line's text, not under its label",
                "a table keeps its lines:\nrank  needs   has\n   0  41 GB   24 GB",
            ),
        ),
        Diagnostic(
            code="MS0101",
            message="node `frontend` is not in the spec",
            primary=Label(span=span(DEPLOYMENT, "frontend"), text="no such node"),
            labels=(Label(span=span(SPEC, "orpheus", "model"), text="this model has `codec`"),),
            fix=Fix(
                message="leave it out",
                edits=(Edit(span=span(DEPLOYMENT, ", frontend"), text=""),),
                applicability="unsafe",
            ),
        ),
        Diagnostic(
            code="MS0002",
            message="`specs/other.mstar` could not be read",
            primary=Label(span=Span(path="specs/other.mstar", start=0, end=0)),
            notes=("no such file",),
        ),
        Diagnostic(
            code="MS0001",
            message="there is no option `--plcement`",
            primary=Label(span=Span(path="", start=0, end=0)),
            helps=("did you mean `--placement`?",),
        ),
    )
    return Report(
        diagnostics=findings,
        sources={source.path: source for source in (SPEC, DEPLOYMENT)},
        attempt="compile `specs/orpheus.mstar`",
        version="1.2.3",
    )

"""Small programs that hold all invariants, made by chance, to run and to send through passes.

A chain of one to three machines, each with nodes of its own and a stream to the next; walks with
loops in loops, choices, parallel branches, forks, sends and emits.
"""

from dataclasses import dataclass, field
from random import Random

from mstarc.ir.graph import Program
from mstarc.ir.text import parse_program

OPTIONS = """\
input prompt : text
output out0 : text
output out1 : text
output out2 : text
output extra : text optional
option count : int = 3 in 0 .. 6
option scale : float = 1.0 in 0.0 .. 2.0
option loud : bool = false
let guided : bool = $scale > 1.0
let fixed : bool = 2 > 1
table weight[i in $count + 8] = 1.0 - ^i / ($count + 1)
"""
POLICIES = (
    "fixed(1)",
    "fixed(3)",
    "sliding(window = 4, stride = 2)",
    "sliding(window = 3, stride = 3)",
    "left_context(chunk = 3, context = 2)",
    "left_context(chunk = 4, context = 6, ramp = (1, 2))",
    "until(%item == 7, max = 4)",
    "until(%item in [7, 11], max = 3)",
)
CONDITIONS = (
    "$loud",
    "let guided",
    "let fixed",
    "$count > 2",
    "wants extra",
    "1 > 2",
    "not $loud and $scale < 1.5",
)


def sound_program(seed: int) -> Program:
    """A program; the same for the same seed."""
    return parse_program(sound_text(seed), "sound.mir")


def sound_text(seed: int) -> str:
    """The text of a program."""
    chance = Random(seed)
    count = chance.randint(1, 3)
    parts = [f"program sound\n\n{OPTIONS}"]
    machines = [_Machine(chance, number, number < count - 1) for number in range(count)]
    parts.extend(machine.nodes() for machine in machines)
    for number in range(count - 1):
        policy = chance.choice(POLICIES)
        tail = chance.choice(["tail drop", "tail short", "tail pad(0)"])
        marks = " marks half" if machines[number].marks else ""
        parts.append(
            f"stream s{number} : i64 chunk {policy} {tail} empty skip{marks} "
            f"from m{number} to m{number + 1}\n"
        )
        machines[number + 1].item = "i64" if policy == "fixed(1)" else "i64[N]"
    for machine in machines:
        parts.append(machine.walk())
    for machine in machines:
        parts.append(machine.machine())
    return "\n".join(parts)


@dataclass(slots=True)
class _Machine:
    chance: Random
    number: int
    sends: bool
    item: str = ""
    names: int = 0
    sites: int = 0
    marks: bool = False
    lines: list[str] = field(default_factory=list)

    @property
    def outputs(self) -> list[str]:
        """No other machine emits to these: the order between two would be chance."""
        return [f"out{self.number}"] + ["extra"] * (not self.sends)

    def __post_init__(self) -> None:
        self.marks = self.sends and self.chance.random() < 0.4

    def nodes(self) -> str:
        n = self.number
        return (
            f"node host{n} : host {{\n"
            f'  impl "m:Host"\n'
            f"  op open(prompt: text) -> (token: i64)\n"
            f"  op note(token: i64) -> (token: i64) stateful\n"
            f"}}\n\n"
            f"node lm{n} : kv_cache {{\n"
            f'  impl "m:Lm"\n'
            f'  weights "lm{n}" bytes {self.chance.randint(1, 50)}000000\n'
            f"  kv {{ layers = 2, heads = 1, head_dim = 8 }}\n"
            f"  context main\n"
            f"  context side\n"
            f"  op step(token: i64) -> (token: i64) attends causal writes main\n"
            f"  op look(token: i64) -> (token: i64) attends causal reads main\n"
            f"  op take(tokens: i64[N]) -> (token: i64) attends causal writes main\n"
            f"}}\n\n"
            f"node mix{n} : stateless {{\n"
            f'  impl "m:Mix"\n'
            f"  op pair(a: i64, b: i64) -> (sum: i64, both: i64[2])\n"
            f"  op spread(token: i64) -> (rows: i64[R])\n"
            f"}}\n"
        )

    def new(self, name: str = "v") -> str:
        self.names += 1
        return f"%{name}.{self.names}"

    def site(self, prefix: str) -> str:
        self.sites += 1
        return f"#{prefix}/{self.sites}"

    def walk(self) -> str:
        self.lines = []
        result = self.body(["%first"], 2, "  ")
        head = f"walk w{self.number}(%first: i64) -> (token: i64) {{"
        return "\n".join([head, *self.lines, f"  return {result}", "}\n"])

    def add(self, indent: str, text: str) -> None:
        self.lines.append(indent + text)

    def body(self, pool: list[str], depth: int, indent: str, context: str = "main") -> str:
        """Statements over the tokens of `pool`; gives a token to hand on."""
        pool = list(pool)
        for _ in range(self.chance.randint(1, 4)):
            self.statement(pool, depth, indent, context)
        return self.chance.choice(pool)

    def statement(self, pool: list[str], depth: int, indent: str, context: str) -> None:
        n, pick = self.number, self.chance.choice
        kinds = ["step", "look", "pair", "copy", "emit", "note"]
        if self.sends:
            kinds += ["send", "send", "sends"]
        if depth:
            kinds += ["loop", "loop", "when", "parallel"] + ["fork"] * (context == "main")
        site = f"w{n}"
        match pick(kinds):
            case "step" | "look" as op:
                name = self.new()
                call = f"lm{n}.{op}({pick(pool)}) on {context} {self.site(site)}"
                self.add(indent, f"{name}: i64 = {call}")
                pool.append(name)
            case "note":
                name = self.new()
                self.add(indent, f"{name}: i64 = host{n}.note({pick(pool)}) {self.site(site)}")
                pool.append(name)
            case "pair":
                total, both, cut = self.new(), self.new("both"), self.new()
                call = f"mix{n}.pair({pick(pool)}, {pick(pool)}) {self.site(site)}"
                self.add(indent, f"{total}: i64, {both}: i64[2] = {call}")
                self.add(indent, f"{cut}: i64 = {both}[1]")
                pool += [total, cut]
            case "copy":
                name = self.new()
                self.add(indent, f"{name}: i64 = {pick(pool)}")
                pool.append(name)
            case "emit":
                output = pick(self.outputs)
                condition = f" if {pick(CONDITIONS)}" if self.chance.random() < 0.3 else ""
                self.add(indent, f"emit {output} <- {pick(pool)}{condition}")
            case "send":
                condition = f" if {pick(CONDITIONS)}" if self.chance.random() < 0.3 else ""
                self.add(indent, f"send s{n} <- {pick(pool)}{condition}")
            case "sends":
                rows = self.new("rows")
                call = f"mix{n}.spread({pick(pool)}) {self.site(site)}"
                self.add(indent, f"{rows}: i64[R] = {call}")
                self.add(indent, f"send s{n} <- {rows}")
            case "fork":
                self.add(indent, f"fork lm{n}.side = lm{n}.main if {pick(CONDITIONS)}")
                self.add(indent, f"release lm{n}.main" if pick([True, False]) else "")
            case "loop":
                self.loop(pool, depth, indent, context)
            case "when":
                self.when(pool, depth, indent, context)
            case "parallel":
                self.parallel(pool, depth, indent, context)

    def loop(self, pool: list[str], depth: int, indent: str, context: str) -> None:
        pick = self.chance.choice
        kind = pick(["times", "max"])
        bound = pick(["0", "1", "3", "$count", "$count + 1"])
        index = f"i{depth}"
        carry, result, collected = self.new(), self.new(), self.new("all")
        start = pick(pool)
        place = len(self.lines)
        handed_on = self.body([*pool, carry], depth - 1, indent + "  ", context)
        stop = pick(["", f" while {carry} != 7", f" until {handed_on} == 7"])
        head = (
            f"{result}: i64 = loop {kind} {bound} index {index} carry ({carry}: i64 = {start}) "
            f"collect ({collected}: i64[?] <- {pick([carry, handed_on])}){stop} "
            f"{self.site(f'w{self.number}')} {{"
        )
        self.lines.insert(place, indent + head)
        if self.chance.random() < 0.4:
            self.add(
                indent, f"  emit {self.outputs[-1]} <- {handed_on} if table weight[^{index}] > 0.5"
            )
        self.add(indent, f"  yield {handed_on}")
        self.add(indent, "}")
        pool.append(result)

    def when(self, pool: list[str], depth: int, indent: str, context: str) -> None:
        result = self.new()
        self.add(indent, f"{result}: i64 = when {self.chance.choice(CONDITIONS)} {{")
        self.add(indent, f"  yield {self.body(pool, depth - 1, indent + '  ', context)}")
        self.add(indent, "} else {")
        self.add(indent, f"  yield {self.chance.choice(pool)}")
        self.add(indent, "}")
        pool.append(result)

    def parallel(self, pool: list[str], depth: int, indent: str, context: str) -> None:
        n, pick = self.number, self.chance.choice
        if context != "main":
            return
        names = []
        self.add(indent, "parallel {")
        for branch_context in ("main", "side"):
            name = self.new()
            names.append(name)
            call = f"lm{n}.step({pick(pool)}) on {branch_context} {self.site(f'w{n}')}"
            self.add(indent, "  branch {")
            self.add(indent, f"    {name}: i64 = {call}")
            self.add(indent, "  }")
        self.add(indent, "}")
        pool += names

    def machine(self) -> str:
        n, pick = self.number, self.chance.choice
        condition = f" when {pick(['wants extra', '$loud', '1 > 2'])}"
        head = f"machine m{n}{condition if self.chance.random() < 0.2 else ''} {{"
        lines = [head, "  register %x: i64", "  register %y: i64", "  state begin {"]
        prefix = f"m{n}.begin"
        if n == 0:
            lines.append(f"    %x: i64 = host0.open(@prompt) {self.site(prefix)}")
            lines.append(f"    %y: i64 = run w0(%x) {self.site(prefix)}")
            lines.extend([f"    mark s{n}.half"] * self.marks)
            lines.append(f"    %x: i64 = run w0(%y) {self.site(prefix)}")
        else:
            last = " last %end" if self.chance.random() < 0.3 else ""
            lines.append(f"    each s{n - 1} as %item: {self.item}{last} {self.site(prefix)} {{")
            if self.item == "i64":
                lines.append(f"      %x: i64 = run w{n}(%item) {self.site(prefix)}")
            else:
                lines.append(f"      %x: i64 = lm{n}.take(%item) {self.site(prefix)}")
                lines.append(f"      %y: i64 = run w{n}(%x) {self.site(prefix)}")
            lines.append("    }")
        go = pick(["done", "done", f"more if {pick(CONDITIONS)} else done"])
        lines += [f"    next {go}", "  }"]
        lines += [
            "  state more {",
            f"    emit {self.outputs[-1]} <- 1",
            "    next done",
            "  }",
            "}\n",
        ]
        return "\n".join(lines)

"""Docstrings and tables: what a step does, in the words of the spec."""

import textwrap
from collections.abc import Mapping, Sequence

from mstarc.plan.actions import (
    Action,
    CallOp,
    ClearContext,
    EmitValue,
    ForkContext,
    Repeat,
    SendItem,
    Test,
)
from mstarc.plan.plan import (
    BranchPlan,
    DonePlan,
    HopPlan,
    JoinPlan,
    LoopTarget,
    MarkPlan,
    RunStep,
    SpreadPlan,
    Step,
)


def numbered(noun: str, names: Sequence[str]) -> str:
    """`Nodes frontend, lm and codec`, or `No nodes`."""
    if not names:
        return f"No {noun}s"
    if len(names) == 1:
        return f"{noun.capitalize()} {names[0]}"
    return f"{noun.capitalize()}s {', '.join(names[:-1])} and {names[-1]}"


def wrapped_doc(text: str, indent: int, width: int = 100) -> tuple[str, ...]:
    """A docstring, on one line where it fits."""
    blank = " " * indent
    text = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if text.endswith('"'):
        text += "."
    flat = f'{blank}"""{text}"""'
    if len(flat) <= width:
        return (flat,)
    lines = textwrap.wrap(text, width - indent - 3, break_long_words=False)
    if len(lines) == 1:
        # Only the closing quotes do not fit: break earlier, or a formatter would join the lines.
        lines = textwrap.wrap(text, width - indent - 6, break_long_words=False)
    lines = [lines[0], *textwrap.wrap(" ".join(lines[1:]), width - indent, break_long_words=False)]
    head = f'{blank}"""{lines[0]}'
    return (head, *(f"{blank}{line}" for line in lines[1:]), f'{blank}"""')


def _statements(actions: tuple[Action, ...]) -> list[str]:
    texts: list[str] = []
    for action in actions:
        match action:
            case CallOp(text=text) | ForkContext(text=text) | ClearContext(text=text):
                texts.append(text)
            case SendItem(text=str() as text, masked=False) if text:
                texts.append(f"send {text}")
            case EmitValue(text=text, masked=False):
                texts.append(f"emit {text}")
            case Repeat(text=text, body=body):
                texts.append(f"{text} {{ {'; '.join(_statements(body))} }}")
            case _:
                pass
    return texts


def _ahead(actions: tuple[Action, ...]) -> list[str]:
    effects = [a for a in actions if isinstance(a, SendItem | EmitValue)]
    return [a.text for a in effects if a.masked and a.text]


def step_doc(step: RunStep) -> str:
    """The statements of a step, and what it does for the loop that follows."""
    text = "; ".join(_statements(step.actions))
    tests = [action for action in step.actions if isinstance(action, Test)]
    if not tests:
        return text or "Keep what the next step reads"
    ahead = bool(_ahead(step.actions))
    if isinstance(step.then, LoopTarget) and step.then.kind == "again":
        rest = "behind the test, what the next pass begins with" if ahead else "then the test"
        return f"{text}; {rest}" if text else rest.capitalize()
    rest = "the loop's first test" if tests[0].condition is not None else "into the loop"
    if ahead:
        rest += " and what its first pass begins with"
    return f"{text}; {rest}" if text else rest.capitalize()


def step_words(step: Step, names: Mapping[int, str]) -> list[str]:
    """What a step does, statement by statement."""
    match step:
        case RunStep():
            done = [*_statements(step.actions), *_ahead(step.actions)]
            if not done and isinstance(step.then, LoopTarget) and step.then.kind == "enter":
                return [f"into {step.then.loop}"]
            return done or ["keeps its values"]
        case BranchPlan() | MarkPlan() | SpreadPlan() | JoinPlan():
            return [step.text]
        case HopPlan(rank=rank, step=target):
            return [f"goes on at rank {rank}: {target}, {names[target]}"]
        case DonePlan(closes=closes):
            return [f"closes {', '.join(closes)}"] if closes else [""]


def wrapped_statements(statements: Sequence[str], width: int) -> list[str]:
    """Statements on as few lines as hold them, broken between two where that is possible."""
    lines = [""]
    for index, statement in enumerate(statements):
        text = statement if index == len(statements) - 1 else f"{statement};"
        if lines[-1] and len(lines[-1]) + 1 + len(text) > width:
            lines.append("")
        lines[-1] += f" {text}" if lines[-1] else text
    return [part for line in lines for part in textwrap.wrap(line, width) or [""]]

"""The body of a device step: calls over the slots of a batch, line by line."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mstarc.codegen.expressions import DeviceExprs, constant_name
from mstarc.codegen.pyrepr import layout_call, pyrepr
from mstarc.codegen.step_body import INDENT, Body
from mstarc.ir.exprs import Const, Expr, Local
from mstarc.ir.types import DimConst, OptionalType, TensorType, Type
from mstarc.plan.actions import (
    Action,
    CallOp,
    ClearContext,
    EmitValue,
    ForkContext,
    Gather,
    Keep,
    Move,
    PullItem,
    Read,
    Repeat,
    Reset,
    SendItem,
    Test,
)
from mstarc.plan.naming import attribute, identifier
from mstarc.plan.plan import RunStep
from mstarc.plan.prompt import Pieces
from mstarc.plan.signatures import has_free_dim, where_there
from mstarc.plan.step_facts import used_in
from mstarc.plan.words import type_text

if TYPE_CHECKING:
    from mstarc.codegen.bodies import BodyWriter


class DeviceBody(Body):
    """Names and lines of one device step."""

    def __init__(self, writer: "BodyWriter", step: RunStep) -> None:
        super().__init__(writer, step)
        self.exprs = DeviceExprs(self.name, writer.constant, self.pass_of, writer.used)

    def piece(self, pieces: Pieces) -> tuple[str, ...]:
        """The lines of a piece that is not the last: the call alone, of which only rows stay: those
        of the context, and of results that have a row for each of them."""
        used = used_in((pieces.call,))
        for name in self.step.loads:
            if name in used:
                self._load(name)
        kept = tuple(name if name in pieces.rows else None for name in pieces.call.results)
        self._call(replace(pieces.call, results=kept), 0, "partial=True")
        for name in pieces.rows:
            self.add(f"self.{name}.put(b, {self.name(name)})")
        return self.rendered()

    def lines(self) -> tuple[str, ...]:
        """The lines behind the docstring, indented."""
        for loop in self.step.passes:
            self.add(f"{self.pass_of(loop)} = self.{identifier(loop)}.index(b)", "i64")
        for name in self.step.loads:
            # A host value is handed over from where it is kept.
            if isinstance(where_there(self.type_of(name)), TensorType):
                self._load(name)
        for index, action in enumerate(self.step.actions):
            self._action(action, 0)
            for name in self.stores_behind(self.step.actions, index):
                self.add(f"self.{name}.put(b, {self._kept(action, name)})")
        return self.rendered()

    def _kept(self, action: Action, name: str) -> str:
        """What is kept of a variable; an item that may be none is kept in two."""
        if isinstance(action, PullItem) and action.there is not None:
            part = "there" if name == action.there else "value"
            return f"{self.name(action.result)}.{part}"
        return self.name(name)

    def _load(self, name: str) -> None:
        variable = self.writer.variables[name]
        packed = name in self.step.packed
        method = {
            "register": "take",
            "values": "pack" if packed else "stack",
            "collector": "pack" if packed else "stack",
        }[variable.storage]
        self.add(f"{self.name(name)} = self.{name}.{method}(b)", self._shape(name))

    def _shape(self, name: str) -> str:
        type_ = self.type_of(name)
        free = has_free_dim(type_)
        return type_text(type_) + (" a request" if free and name in self.step.packed else "")

    def _action(self, action: Action, depth: int) -> None:
        match action:
            case CallOp():
                self._call(action, depth)
            case Move(pairs=pairs):
                targets = ", ".join(self.name(name) for name, _ in pairs)
                values = ", ".join(
                    self.exprs.render(value, self.type_of(name)) for name, value in pairs
                )
                self.add(f"{targets} = {values}", depth=depth)
            case Read(result=result) | PullItem(result=result) if not self._is_read(result):
                pass
            case Read(stream=stream, result=result):
                method = "pack" if result in self.step.packed else "window"
                code = f"{self.name(result)} = self.{attribute(stream)}.{method}(b)"
                self.add(code, self._shape(result), depth)
            case PullItem(stream=stream, result=result, sure=True):
                code = f"{self.name(result)} = self.{attribute(stream)}.item(b)"
                self.add(code, self._shape(result), depth)
            case PullItem(stream=stream, result=result):
                code = f"{self.name(result)} = self.{attribute(stream)}.item_or_none(b)"
                self.add(code, f"{self._shape(result)} or none", depth)
            case SendItem():
                self._send(action, depth)
            case EmitValue():
                where = self._where(action.masked, action.when)
                method, value = "emit", action.value
                if isinstance(value, Local) and not isinstance(
                    where_there(self.type_of(value.name)), TensorType
                ):
                    method, text = "hand_over", f"self.{value.name}"
                else:
                    text = self.exprs.render(value)
                self.add(f"b.{method}({pyrepr(action.output)}, {text}{where})", depth=depth)
            case Test():
                self._test(action, depth)
            case Reset(collector=collector):
                self.add(f"self.{collector}.reset(b)", depth=depth)
            case Gather(collector=collector, value=value):
                code = f"self.{collector}.append(b, {self.exprs.render(value)})"
                self.add(code, f"collect {self.name_of_collector(collector)}", depth)
            case Keep(result=result, value=value):
                code = f"{self.name(result)}_passes.append({self.exprs.render(value)})"
                self.add(code, depth=depth)
            case Repeat():
                self._repeat(action, depth)
            case ForkContext() | ClearContext():
                pass

    def _is_read(self, name: str) -> bool:
        return name in self.step.stores or name in used_in(self.step.actions)

    def name_of_collector(self, name: str) -> str:
        """The short name of what a loop collects."""
        return self.writer.variables[name].local

    def _call(self, call: CallOp, depth: int, *more: str) -> None:
        op = self.writer.signatures.op(call)
        arguments = ["b"]
        for parameter, argument in zip(op.parameters, call.arguments, strict=True):
            type_ = parameter.type
            if isinstance(type_, OptionalType):
                arguments.append(self._optional(argument, type_.item, dict(call.there)))
                continue
            text = self.exprs.render(argument, type_)
            if isinstance(argument, Const) and isinstance(argument.value, tuple):
                packed = has_free_dim(type_) and self._is_kv(call)
                text = f"b.{'packed' if packed else 'stacked'}({text})"
            arguments.append(text)
        if call.context is not None:
            arguments.append(f"context={pyrepr(call.context)}")
        if call.contexts:
            arguments.append(f"contexts={pyrepr(call.contexts)}")
        if call.over is not None:
            arguments.append(f"over={pyrepr(self._over(call, call.over))}")
            free = tuple(i for i, r in enumerate(op.results) if has_free_dim(r.type))
            arguments += [f"rows={pyrepr(free)}"] if free else []
        arguments += more
        results = ["_" if name is None else self.name(name) for name in call.results]
        head = f"self.{attribute(call.node)}.{identifier(call.op)}"
        if any(name is not None for name in call.results):
            head = f"{', '.join(results)} = {head}"
        comment = ", ".join(self._shape(name) for name in call.results if name is not None)
        text = layout_call(head, arguments, INDENT + 4 * depth)
        self.add(text, "" if "\n" in text else comment, depth)

    def _over(self, call: CallOp, over: tuple[bool, ...]) -> tuple[str, ...]:
        """How each argument is spread over the contexts of an array."""
        parameters = self.writer.signatures.op(call).parameters
        return tuple(
            f"{'each' if each else 'shared'}{' rows' if has_free_dim(where_there(p.type)) else ''}"
            for p, each in zip(parameters, over, strict=True)
        )

    def _optional(self, argument: Expr, type_: Type, there: Mapping[str, str]) -> str:
        """What an op gets for a parameter that may be none."""
        text = self.exprs.render(argument, type_)
        pulled = [a.result for a in self.step.actions if isinstance(a, PullItem) and not a.sure]
        if isinstance(argument, Local) and argument.name in pulled:
            return text
        if isinstance(argument, Local) and argument.name in there:
            return f"b.maybe({text}, {self.name(there[argument.name])})"
        if argument != Const(None):
            return f"b.some({text})"
        if not isinstance(type_, TensorType) or not type_.is_static:
            return "None"
        sizes = tuple(dim.value for dim in type_.dims if isinstance(dim, DimConst))
        return f"b.none({pyrepr(type_.dtype)}, {pyrepr(sizes)})"

    def _is_kv(self, call: CallOp) -> bool:
        return self.writer.signatures.nodes[call.node].engine == "kv_cache"

    def _send(self, send: SendItem, depth: int) -> None:
        arguments = ["b", self._sent(send)]
        if send.masked or send.when is not None:
            arguments.append(self._where(send.masked, send.when)[2:])
        if send.ends is not None:
            arguments.append(f"ends={self._ends(send, send.ends)}")
        head = f"self.{attribute(send.stream)}.append"
        text = layout_call(head, arguments, INDENT + 4 * depth)
        self.add(text, "" if "\n" in text or not send.text else f"send {send.text}", depth)

    def _ends(self, send: SendItem, ends: Expr) -> str:
        """Which items end a chunk: one answer an item, or the same for all."""
        if not isinstance(ends, Const):
            return self.exprs.render(ends)
        if send.alike is not None:
            return self._alike(send.alike, "True", pyrepr("bool"))
        if isinstance(send.value, Local) and send.items > 1:
            return self._alike(send.value, "True", pyrepr("bool"))
        return 'b.full(True, "bool")'

    def _sent(self, send: SendItem) -> str:
        """A value, a number once for each item that goes out with it, or a list once a request."""
        text = self.exprs.render(send.value)
        if not isinstance(send.value, Const):
            return text
        if isinstance(send.value.value, tuple):
            return f"b.stacked({text})"
        rank = self.writer.rank
        items = {ring.name: ring.item for ring in rank.rings}
        items |= {outbox.name: outbox.item for outbox in rank.outboxes}
        dtype = pyrepr(items[send.stream].dtype)
        if send.alike is None:
            return f"b.full({text}, {dtype})"
        return self._alike(send.alike, text, dtype)

    def _alike(self, like: Expr, number: str, dtype: str) -> str:
        """A number for each of the items in a value."""
        assert isinstance(like, Local)
        type_ = where_there(self.type_of(like.name))
        assert isinstance(type_, TensorType)
        dims = len(type_.dims) - 1
        return f"b.alike({self.exprs.render(like)}, {number}, {dtype}, dims={dims})"

    def _where(self, masked: bool, when: Expr | None) -> str:
        """The mask of an effect: the loop goes on, and what admission has computed holds."""
        masks = ["more"] if masked else []
        if when is not None:
            masks.append(self.exprs.render(when))
        return f", where={' & '.join(masks)}" if masks else ""

    def _test(self, test: Test, depth: int) -> None:
        condition = "True" if test.condition is None else self.exprs.render(test.condition)
        if test.negate:
            assert test.condition is not None
            condition = f"~({condition})"
        target = "more = " if test.used else ""
        self.add(f"{target}b.more({condition})", test.text, depth)

    def _repeat(self, repeat: Repeat, depth: int) -> None:
        index = "_" if repeat.index is None else identifier(repeat.index)
        for name in repeat.collects:
            self.add(f"{self.name(name)}_passes = []", depth=depth)
        passes = str(repeat.passes)
        if repeat.passes_name is not None:
            passes = constant_name(repeat.passes_name)
            self.writer.used.add(passes)
        self.add(f"for {index} in range({passes}):", repeat.text, depth)
        for action in repeat.body:
            self._action(action, depth + 1)
        for name in repeat.collects:
            passes = f"{self.name(name)}_passes"
            code = f"{self.name(name)} = self.ops.stack(*{passes})"
            self.add(code, self._shape(name), depth)

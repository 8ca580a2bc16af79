"""Machines: registers, transitions, parts, chunks."""

from mstarc.ir.exprs import Binary, Local, PartAttribute, Wants
from mstarc.ir.graph import Each, ForParts, Machine, Match, Program, Run, SetRegister
from mstarc.ir.types import OptionalType, TensorType
from tests.support.front_half import lowered

SPEC = """
mstar 1
model demo
request {
  in  parts  : [text | image] at least 1 turns
  out reply  : text via tok.text
  out speech : audio(24000) optional
  opt mood   : int = 0 in 0 .. 3
}
node tok : host {
  impl "demo:Tok"
  op words(t: text, opens: flag) -> (ids: i64[T])
  op pixels(i: image) -> (ids: i64[T])
  op text(token: i64) -> (piece: text)  stateful
}
node lm : kv_cache {
  impl "demo:Model"
  kv { layers = 2, heads = 2, head_dim = 8 }
  op prefill(ids: i64[T], last: flag) -> (token: i64 if last)
  op step(token: i64) -> (next: i64, h: f32[4])
}
node codec : stateless {
  impl "demo:Codec"
  op decode(h: f32[F, 4], loud: bool[F]) -> (pcm: f32[64 * F - 3])
}
stream states : (h: f32[4], loud: bool) marks turn
  chunk left_context(chunk = 4, context = 2, ramp = (1, 2)) tail short empty skip
walk read(ids: i64[T], last: flag) -> (token: i64 if last) { token = lm.prefill(ids, last = last) }
walk say(first: i64, speak: flag) {
  loop max 8 carry token = first while token != 2 {
    emit reply <- token
    token, h = lm.step(token)
    send states <- h, true if speak
  }
}
walk sound(h: f32[F, 4], loud: bool[F]) {
  pcm = codec.decode(h, loud)
  emit speech <- pcm
}
machine main {
  state begin {
    let speak = wants speech
    for part in parts {
      match part {
        text(x) {
          ids = tok.words(x, opens = part.opens)
          token = run read(ids, last = part.last)
        }
        image(x) {
          ids = tok.pixels(x)
          token = run read(ids, last = part.last)
        }
      }
    }
    mark states.turn
    next calm if mood == 0
    next loud if mood == 1 or mood == 2
    next calm if mood != 0 and mood != 1 and mood != 2
  }
  state calm {
    run say(token, speak = speak)
    next done
  }
  state loud {
    run say(token, speak = speak)
    next calm if mood == 3 else done
  }
}
machine voice when wants speech {
  state listen {
    each states as s chunk until(turn, max = 64) until turn run sound(s.h, s.loud)
    each states as s, last run sound(s.h, s.loud)
    next done
  }
}
"""


def program() -> Program:
    return lowered(SPEC.replace("as s, last run", "as s run"))


def machine(name: str) -> Machine:
    return next(machine for machine in program().machines if machine.name == name)


def test_values_of_a_machine_are_registers() -> None:
    registers = {value.name: value.type for value in machine("main").registers}
    assert list(registers) == ["speak", "ids", "token"]
    assert registers["token"] == OptionalType(TensorType("i64"))


def test_a_let_sets_a_register() -> None:
    first = machine("main").states[0].body[0]
    assert isinstance(first, SetRegister)
    assert first.value == Wants("speech")


def test_what_an_arm_binds_is_no_register() -> None:
    loop = machine("main").states[0].body[1]
    assert isinstance(loop, ForParts)
    match = loop.body[0]
    assert isinstance(match, Match)
    assert [arm.kind for arm in match.arms] == ["text", "image"]
    assert [arm.value.name for arm in match.arms] == ["x", "x.1"]
    run = match.arms[0].body[1]
    assert isinstance(run, Run)
    assert run.arguments == (Local("ids"), PartAttribute("part", "last"))


def test_three_transitions_are_a_chain_of_choices() -> None:
    states = {state.name: state for state in machine("main").states}
    assert list(states) == ["begin", "begin.else", "calm", "loud"]
    first, second = states["begin"].next, states["begin.else"].next
    assert (first.target, first.otherwise) == ("calm", "begin.else")
    assert isinstance(first.condition, Binary)
    assert (second.target, second.otherwise) == ("loud", "calm")
    assert states["begin.else"].body == ()


def test_each_keeps_its_own_policy_and_mark() -> None:
    first, second = machine("voice").states[0].body
    assert isinstance(first, Each)
    assert isinstance(second, Each)
    assert first.policy is not None
    assert (first.policy.kind, first.policy.mark, first.policy.size) == ("until", "turn", 64)
    assert first.until == "turn"
    assert (second.policy, second.until) == (None, None)
    assert [first.names[0].name, second.names[0].name] == ["s", "s.1"]


def test_a_read_may_know_its_last_chunk() -> None:
    ends = "as s, last { when last { run sound(s.h, s.loud) } }"
    found = lowered(SPEC.replace("as s, last run sound(s.h, s.loud)", ends))
    voice = next(m for m in found.machines if m.name == "voice")
    each = voice.states[0].body[1]
    assert isinstance(each, Each)
    assert each.last == "last"

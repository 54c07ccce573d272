"""Does a rule hold for a subject? Yes with its proof, no, or unknown with the reason. Pure.

The subject is a device with the port and slot above it, or a port or slot that shows no device. Answers follow Kleene:
a rule on unknown facts never fires and never clears anything.

Log conditions look at the lines about the subject only. `count` and `within` are of the matching lines; `after` and
`before` are of the line that is excused, and the `unless` of a `before` names what makes it void in between. A line
that an `unless` pattern makes harmless does not count; where both patterns have a named group of the same name, it must
have caught the same text (so `BAR 4 ... assigned` excuses `BAR 4 ... no space`, not BAR 2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..model import Device, Kind, Port, Profile, Rule, Slot, Trit, Unknown, all_of, any_of, negate
from .facts import NOWHERE, Surroundings, look_up
from .hearing import Hit, same_clock, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a rule is judged for. `heard` holds the matching lines about it by pattern.

    `address` is what a finding about it names: the endpoint's, the port's where no endpoint is enumerated, or None.
    `logs` is Unknown when there was no log to look at: then nothing is known from silence.
    `unowned` are the matching lines that name no device at all: they may mean this one, and excuse what is near.
    `guessed` are ports that only nearness in time ties to the device: what it says excuses nothing that they said.
    """

    address: str | None = None
    slot_name: str | None = None
    device: Device | None = None
    port: Port | None = None
    slot: Slot | None = None
    profile: Profile | None = None
    surroundings: Surroundings = NOWHERE
    named: bool = False
    enumerated: bool = False
    bridge: bool = False
    heard: Mapping[str, Sequence[Hit]] = field(default_factory=dict)
    unowned: Mapping[str, Sequence[Hit]] = field(default_factory=dict)
    logs: Unknown | None = None
    guessed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Judgement:
    """How a rule came out: `facts` and `hits` prove a YES, `because` explains an UNKNOWN, or a NO made by `unless`.

    `excused` are the lines that would have made it YES, had not an `unless` made them harmless.
    """

    answer: Trit
    facts: tuple[tuple[str, Any], ...] = ()
    hits: tuple[Hit, ...] = ()
    because: str = ""
    excused: tuple[Hit, ...] = ()


_NO = Judgement(Trit.NO)
_BY_CHANCE = 5.0      # seconds: what a card and a port that may be its own say this close together belongs together
_MOST_HITS = 500      # of a line that comes again and again, the first and the last so many are judged
_MOST_SAID = 2000     # characters of a line in a reason


def judge(rule: Rule, subject: Subject) -> Judgement:
    """The rule's condition for the subject."""
    return judge_condition(rule.when, subject, ())


def judge_condition(
    when: Mapping[str, Any], subject: Subject, excuses: tuple[Mapping[str, Any], ...]
) -> Judgement:
    """One condition. `excuses` are the log conditions of every `unless` around it."""
    unless: Sequence[Mapping[str, Any]] = when.get("unless", ())
    inner = (*excuses, *(c for c in unless if "log" in c))
    for word, of in _WORDS.items():
        if word in when:
            judgement = of(when, subject, inner)
            break
    else:
        raise ValueError(f"no condition in {when!r}")          # the loader lets none through
    # Lines are excused one by one; what holds by facts alone is cleared as a whole. A log that nobody could read
    # excuses nothing.
    silent = subject.logs is not None
    others = [c for c in unless if "log" not in c or not (judgement.hits or silent)]
    if not others or judgement.answer is Trit.NO:
        return judgement
    return _spared(judgement, [judge_condition(c, subject, excuses) for c in others])


def _spared(judgement: Judgement, reasons: list[Judgement]) -> Judgement:
    """What is left of a judgement after the facts of `unless`."""
    harmless = any_of([reason.answer for reason in reasons])
    answer = all_of([judgement.answer, negate(harmless)])
    if answer is judgement.answer:
        return judgement
    if answer is Trit.NO:
        reason = next(r for r in reasons if r.answer is Trit.YES)
        return Judgement(Trit.NO, because=_said(reason), excused=judgement.hits)
    return next(r for r in reasons if r.answer is Trit.UNKNOWN)


def _said(judgement: Judgement) -> str:
    parts = [f"{name} is {shown(value)}" for name, value in judgement.facts]
    parts += [hit.line.text.strip()[:_MOST_SAID] for hit in judgement.hits[:1]]
    return "; ".join(parts)


def shown(value: Any) -> str:
    """A fact's value for a sentence."""
    if isinstance(value, Unknown):
        return f"unknown ({value.why})"
    if value is None:
        return "absent"
    if isinstance(value, (tuple, frozenset)):
        return ", ".join(sorted(str(v) for v in value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _all(when: Mapping[str, Any], subject: Subject, excuses: tuple[Mapping[str, Any], ...]) -> Judgement:
    parts = []
    for condition in when["all"]:
        part = judge_condition(condition, subject, excuses)
        if part.answer is Trit.NO:
            return Judgement(Trit.NO, because=part.because, excused=part.excused)
        parts.append(part)
    answer = all_of([part.answer for part in parts])
    return _joined(answer, [part for part in parts if part.answer is answer])


def _any(when: Mapping[str, Any], subject: Subject, excuses: tuple[Mapping[str, Any], ...]) -> Judgement:
    parts = [judge_condition(condition, subject, excuses) for condition in when["any"]]
    answer = any_of([part.answer for part in parts])
    return _joined(answer, [part for part in parts if part.answer is answer])


def _joined(answer: Trit, parts: list[Judgement]) -> Judgement:
    hits = {hit.order: hit for part in parts for hit in part.hits}
    excused = {hit.order: hit for part in parts for hit in part.excused}
    return Judgement(
        answer, facts=tuple(dict.fromkeys(fact for part in parts for fact in part.facts)),
        hits=tuple(hits[order] for order in sorted(hits)), because=next((p.because for p in parts if p.because), ""),
        excused=tuple(excused[order] for order in sorted(excused)),
    )


def _not(when: Mapping[str, Any], subject: Subject, excuses: tuple[Mapping[str, Any], ...]) -> Judgement:
    inner = judge_condition(when["not"], subject, excuses)
    return Judgement(negate(inner.answer), facts=inner.facts, because=inner.because)


def _fact(when: Mapping[str, Any], subject: Subject, _: tuple[Mapping[str, Any], ...]) -> Judgement:
    name = when["fact"]
    value = look_up(subject, name)
    proof: tuple[tuple[str, Any], ...] = ((name, _hashable(value)),)
    if "is" in when:
        holds = {
            "present": value is not None and not isinstance(value, Unknown),
            "absent": value is None,
            "unknown": isinstance(value, Unknown),
        }[when["is"]]
        if isinstance(value, Unknown) and when["is"] != "unknown":
            return Judgement(Trit.UNKNOWN, because=f"{name}: {value.why}")
        return Judgement(Trit.of(holds), facts=proof)
    word = next(w for w in COMPARE if w in when)
    operand = when[word]
    if isinstance(operand, Mapping):
        other = look_up(subject, operand["fact"])
        proof = (*proof, (operand["fact"], _hashable(other)))
        operand = other
    for side, label in ((value, name), (operand, "the other side")):
        if isinstance(side, Unknown):
            return Judgement(Trit.UNKNOWN, because=f"{label}: {side.why}")
    if value is None or operand is None:
        return Judgement(Trit.NO, facts=proof)
    try:
        return Judgement(Trit.of(COMPARE[word](value, operand)), facts=proof)
    except TypeError:
        return Judgement(Trit.UNKNOWN, because=f"{name}: {value!r} cannot be compared")


def _hashable(value: Any) -> Any:
    """Long or unhashable facts stand in the proof as text."""
    return value if isinstance(value, (str, int, float, bool, Unknown, type(None))) else shown(value)


COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: bool(a == b),
    "ne": lambda a, b: bool(a != b),
    "lt": lambda a, b: bool(a < b),
    "le": lambda a, b: bool(a <= b),
    "gt": lambda a, b: bool(a > b),
    "ge": lambda a, b: bool(a >= b),
    "in": lambda a, b: a in b,
    "contains": lambda a, b: b in a,
}


def _log(when: Mapping[str, Any], subject: Subject, excuses: tuple[Mapping[str, Any], ...]) -> Judgement:
    if subject.logs is not None:
        return Judgement(Trit.UNKNOWN, because=subject.logs.why)
    hits = subject.heard.get(when["log"], ())
    if not hits:
        return _NO
    kept, excused, because = [], [], ""
    for hit in hits if len(hits) <= 2 * _MOST_HITS else (*hits[:_MOST_HITS], *hits[-_MOST_HITS:]):
        excuse = next((e for e in (_excuse(hit, c, subject) for c in excuses) if e is not None), None)
        if excuse is None:
            kept.append(hit)
        else:
            excused.append(hit)
            because = excuse.line.text.strip()
    need = int(when.get("count", {}).get("ge", 1))
    if len(kept) < need:
        return Judgement(Trit.NO, because=because, excused=tuple(excused))
    if "within" in when and need > 1:
        return _clustered(kept, need, when["within"])
    return Judgement(Trit.YES, hits=tuple(kept))


def _excuse(hit: Hit, condition: Mapping[str, Any], subject: Subject) -> Hit | None:
    """The line that makes a hit harmless, if there is one."""
    for other in subject.heard.get(condition["log"], ()):
        if any(other.groups[key] != hit.groups[key] for key in other.groups.keys() & hit.groups.keys()):
            continue
        if other.line.host and hit.line.host and other.line.host != hit.line.host:
            continue                        # what another machine did excuses nothing
        by_chance = condition.get("within", _BY_CHANCE + 1) > _BY_CHANCE
        if by_chance and hit.line.address in subject.guessed and other.line.address not in (None, *subject.guessed):
            continue
        if condition.get("after") and not _later(other, hit):
            continue
        if condition.get("before") and not (_later(hit, other) and _lasts(other, hit, condition, subject)):
            continue
        if "within" in condition and not _near(other, hit, condition["within"]):
            continue
        return other
    if "within" not in condition or condition.get("after"):
        return None
    return next((
        other for other in subject.unowned.get(condition["log"], ())
        if other.groups.items() <= hit.groups.items() and _beside(other, hit, condition["within"])
    ), None)


def _beside(one: Hit, other: Hit, within: float) -> bool:
    """Were both written in one log within so many seconds? Unlike `_near` this must be known."""
    a, b = seconds(one.line), seconds(other.line)
    same = one.line.source == other.line.source and same_clock(one.line, other.line)
    return same and a is not None and b is not None and abs(a - b) <= within


def _lasts(earlier: Hit, hit: Hit, condition: Mapping[str, Any], subject: Subject) -> bool:
    """Does what an earlier line says still hold: no line of the condition's own `unless` stands between the two."""
    return not any(
        earlier.order < between.order < hit.order
        for void in condition.get("unless", ()) for between in subject.heard.get(void.get("log"), ())
    )


def _later(one: Hit, other: Hit) -> bool:
    """Was `one` written after `other`? Order tells within one log, comparable clocks between two."""
    if one.line.source == other.line.source:
        return one.order > other.order
    a, b = seconds(one.line), seconds(other.line)
    return same_clock(one.line, other.line) and a is not None and b is not None and a > b


def _near(one: Hit, other: Hit, within: float) -> bool:
    """No further apart than `within` seconds, as far as clocks tell: where they do not, the excuse holds."""
    a, b = seconds(one.line), seconds(other.line)
    if a is None or b is None or not same_clock(one.line, other.line):
        return True
    return abs(a - b) <= within


def _clustered(hits: list[Hit], need: int, within: float) -> Judgement:
    """YES when `need` of the hits, in one log, lie within so many seconds."""
    untimed = False
    for source in dict.fromkeys(hit.line.source for hit in hits):
        timed = [(seconds(hit.line), hit) for hit in hits if hit.line.source == source]
        if any(at is None for at, _ in timed):
            untimed = untimed or len(timed) >= need
            continue
        timed.sort(key=lambda pair: pair[0] or 0.0)
        for i in range(len(timed) - need + 1):
            start, end = timed[i][0], timed[i + need - 1][0]
            if start is not None and end is not None and end - start <= within:
                return Judgement(Trit.YES, hits=tuple(hit for _, hit in timed))
    return Judgement(Trit.UNKNOWN, because="the log's lines carry no time") if untimed else _NO


_WORDS: Mapping[str, Callable[..., Judgement]] = {
    "all": _all, "any": _any, "not": _not, "fact": _fact, "log": _log,
}

NO_LOG = Unknown("no log was captured", Kind.NOT_CAPTURED)

"""Rules judged for one place -> findings, what was ruled out, and what could not be checked. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ..model import (
    Evidence,
    Finding,
    Probed,
    RootCause,
    Rule,
    RuledOut,
    Severity,
    State,
    Trit,
    Unknown,
)
from ..rules.facts import DERIVED, is_fact, look_up
from ..rules.hearing import Hit
from ..rules.judge import Judgement, Subject, judge, shown
from .excerpt import excerpt
from .rank import CONFIDENCE, NEVER, Ranked, reached

# A card held by our own drain is unbound, powered off or gone because we did that.
HELD_EXPLAINS = frozenset({
    "driver_not_loaded", "slot_powered_off", "slot_empty", "surprise_removal", "link_lost", "dev_node_missing",
    "device_inaccessible", "hotplug_request_ignored",
})
HARMLESS = "none"
# What is over once the card's driver is at work again.
DEPARTURES = frozenset({"surprise_removal", "link_lost"})
# And what is not: it goes on until somebody acts, on a card that is in order.
OUTLASTS = frozenset({"stale_device_handle", "runtime_stale_after_hotplug", "device_count_not_refreshed"})
# A rule, the patterns it must hear (`must_hear`), and whether it is about the machine only (`of_machine`).
Bound: TypeAlias = tuple[Rule, frozenset[str] | None, bool]
MEANING_ONLY = "possible"       # of a harmless rule: its line is known, and proves nothing
# Harmless rules that end whatever had begun: the card was taken away in order.
_ENDS = frozenset({"hw.ok-removal-done", "hw.ok-button-off", "hw.ok-cancelled", "drv.ok-removed"})
# That a node is there does not take back what the driver complained of.
_NOT_AT_WORK = frozenset({"rt.ok-node"})
# That the driver or a runtime works on the card again.
_AT_WORK_AGAIN = frozenset({"drv.ok-initialised", "rt.ok-tool"})
_MOST_LINES = 8
_UNNAMED = re.compile(r"\{([a-z_][\w.]*)\}")


@dataclass
class Judged:
    """All that the rules said of one place. `fine` are the rules of root cause `none` that hold, with their titles.

    `begun`: those of them that block a rung, with the place of their last line: a step that must be seen to end.
    """

    ranked: list[Ranked] = field(default_factory=list)
    fine: list[tuple[Rule, str]] = field(default_factory=list)
    begun: list[tuple[Rule, str, int]] = field(default_factory=list)
    settled: int = -1           # the last line that shows the driver or runtime at work, or done with the card
    again: int = -1             # the last line that shows it at work on a card that is there
    at_work: bool = False       # so does a tool's output, which carries no time: it was collected after the log
    ended: int = -1             # the last line that shows the card taken away in order
    explained: set[int] = field(default_factory=set)        # lines that a rule rests on, or has an excuse for
    troubles: set[int] = field(default_factory=set)         # lines that tell of a failure, and not of its cause
    ruled_out: list[RuledOut] = field(default_factory=list)
    unchecked: list[RuledOut] = field(default_factory=list)


def judge_place(
    subject: Subject, rules: Sequence[Bound], taxonomy: Mapping[str, RootCause], *, ports: tuple[str, ...],
    accelerator: bool, live: bool, held_explains: frozenset[str], where: str | None, whole: bool,
    stranger: str | None = None, drive: bool = False,
) -> Judged:
    """Every rule for one place. `where` is what the findings name as their address.

    `stranger`: why nothing about the place is the machine's fault, where it is plainly no accelerator. `drive`: it is
    storage, which people exchange while it runs.
    Most places hear none of most rules' patterns; those rules need no judging.
    """
    judged = Judged()
    by_cause: dict[str, Ranked] = {}
    for rule, needed, general in rules:
        if general and not whole:
            continue
        if needed is not None and subject.logs is None and needed.isdisjoint(subject.heard):
            continue
        judgement = judge(rule, subject)
        told = judged.troubles if is_trouble(rule) else judged.explained
        told.update(hit.order for hit in judgement.hits)
        judged.explained.update(hit.order for hit in judgement.excused)
        if judgement.answer is Trit.UNKNOWN:
            judged.unchecked.append(RuledOut(rule.id, rule.root_cause, where, judgement.because))
            continue
        if judgement.answer is Trit.NO:
            if judgement.excused and rule.root_cause != HARMLESS:
                judged.ruled_out.append(RuledOut(rule.id, rule.root_cause, where, judgement.because))
            continue
        if rule.root_cause == HARMLESS:
            _note_harmless(judged, rule, _title(rule.title, subject, judgement, where), judgement)
            continue
        past = stranger or _past(rule, judgement, subject, live=live, held_explains=held_explains)
        if past is not None:
            judged.ruled_out.append(RuledOut(rule.id, rule.root_cause, where, past))
            continue
        found = _ranked(rule, judgement, subject, taxonomy[rule.root_cause], where, ports, accelerator=accelerator)
        known = by_cause.get(rule.root_cause)
        by_cause[rule.root_cause] = found if known is None else _merged(known, found)
    judged.ranked = [_returned(one, judged.again, drive=drive)
                     if cause in DEPARTURES and one.last < judged.again else one for cause, one in by_cause.items()]
    return judged


def _returned(left: Ranked, at: int, *, drive: bool) -> Ranked:
    """The departure of a card whose driver is at work again since line `at`; of a drive it is worth a word only."""
    finding = replace(left.finding, title=f"{left.finding.title}; it came back since",
                      severity=Severity.INFO if drive else left.finding.severity)
    return replace(left, until=at, finding=finding, explains=left.explains - OUTLASTS)


def is_trouble(rule: Rule) -> bool:
    """Does the rule tell of a failure, and not of its cause?"""
    return rule.root_cause == HARMLESS and rule.severity is not None and rule.severity.at_least(Severity.WARNING)


def _note_harmless(judged: Judged, rule: Rule, title: str, judgement: Judgement) -> None:
    last = judgement.hits[-1].order if judgement.hits else -1
    if rule.blocks is not None:
        judged.begun.append((rule, title, last))
    elif rule.confidence != MEANING_ONLY:
        judged.fine.append((rule, title))
        if not rule.id.startswith("hw.") and rule.id not in _NOT_AT_WORK:
            judged.settled = max(judged.settled, last)
        if rule.id in _AT_WORK_AGAIN:
            judged.again = max(judged.again, last)
        if rule.id.startswith("rt."):
            judged.at_work |= any(hit.line.time is None and hit.line.monotonic is None for hit in judgement.hits)
    if rule.id in _ENDS:
        judged.ended = max(judged.ended, last)


def _past(
    rule: Rule, judgement: Judgement, subject: Subject, *, live: bool, held_explains: frozenset[str]
) -> str | None:
    """Why a finding does not stand though its rule holds: our own doing, or history."""
    device = subject.device
    if device is None:
        return None
    if device.held is not None and rule.root_cause in held_explains:
        return f"held by {device.held.by} since {device.held.since}: {device.held.reason}"
    if live and rule.blocks is not None and judgement.hits and reached(device.rung, rule.blocks):
        return f"the card has since become {device.rung.value}"
    return None


def _ranked(
    rule: Rule, judgement: Judgement, subject: Subject, cause: RootCause, where: str | None, ports: tuple[str, ...],
    *, accelerator: bool,
) -> Ranked:
    order, last = (judgement.hits[0].order, judgement.hits[-1].order) if judgement.hits else (NEVER, NEVER)
    finding = Finding(
        id=cause.id, layer=cause.layer, severity=rule.severity or cause.severity, address=where,
        slot=subject.slot_name, title=_title(rule.title, subject, judgement, where), cause=rule.cause,
        action=rule.action or cause.action, repair=cause.repair, evidence=_evidence(judgement, subject),
        confidence=rule.confidence, rule=rule.id,
    )
    return Ranked(finding, order, frozenset(rule.explains), rule.blocks, subject.address, accelerator, ports,
                  last)


def _merged(one: Ranked, other: Ranked) -> Ranked:
    """Two rules with the same root cause: the surer one speaks, both prove, and it is as bad as the worse."""
    a, b = one.finding, other.finding
    if CONFIDENCE.index(b.confidence) < CONFIDENCE.index(a.confidence):
        one, other, a, b = other, one, b, a
    evidence = tuple(dict.fromkeys((*a.evidence, *b.evidence)))[:_MOST_LINES]
    severity = max(a.severity, b.severity, key=lambda s: s.weight)
    return replace(
        one, finding=replace(a, evidence=evidence, severity=severity), order=min(one.order, other.order),
        last=max(one.last, other.last),
        explains=one.explains | other.explains, blocks=one.blocks or other.blocks,
    )


def _evidence(judgement: Judgement, subject: Subject) -> tuple[Evidence, ...]:
    """The lines first, the facts after them."""
    lines = [line_of(hit) for hit in judgement.hits]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES - 1], lines[-1]]
    sources: Mapping[str, str] = subject.device.sources if isinstance(subject.device, Probed) else {}
    facts = [
        Evidence(source_of(name, sources), None, f"{name}: {shown(value)}") for name, value in judgement.facts
        if not _internal(name)
    ]
    return tuple(lines + facts)


def _internal(name: str) -> bool:
    """Is a fact how we came to ask, rather than something that was seen?"""
    return name == "sure" or name.startswith("profile.") or (name in DERIVED and "." not in name)


def source_of(name: str, sources: Mapping[str, str]) -> str:
    """Where a fact of a device was read; `facts` where that was not noted."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        found = sources.get(".".join(parts[:length]))
        if found is not None:
            return found
    return "facts"


def line_of(hit: Hit) -> Evidence:
    """A log line as evidence."""
    line = hit.line
    stamp = f"[{line.monotonic:11.6f}]" if line.monotonic is not None else None
    return Evidence(line.source, line.line, excerpt(line.text), line.time or stamp)


def _title(title: str, subject: Subject, judgement: Judgement, where: str | None) -> str:
    """The title with facts and what the log patterns caught filled in."""
    caught: dict[str, Any] = {}
    for hit in judgement.hits:
        for name, value in hit.groups.items():
            caught.setdefault(name.rstrip("_"), value)      # a pattern cannot have two groups of one name
    number = look_up(subject, "port.slot.number")
    numbered = str(number) if isinstance(number, int) else "?"
    caught.update(address=where or "the machine", slot=subject.slot_name or numbered)

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name in caught:
            return str(caught[name])
        value = look_up(subject, name) if is_fact(name) else None
        return "?" if value is None or isinstance(value, Unknown) else shown(value)

    return excerpt(_UNNAMED.sub(fill, title))


def missing_rung(subject: Subject, *, live: bool) -> State | None:
    """The rung that the device lacks next, None where that is not known or it lacks none."""
    from .rank import next_rung

    device = subject.device
    if not live or device is None or not device.sure or device.missing is None:
        return None
    return next_rung(device.rung)

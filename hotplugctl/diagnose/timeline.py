"""The lines that matter of all sources, in one order as far as the evidence tells one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..model import Clock, Finding, LogLine, Machine, Moment, Rule, RuledOut
from ..rules.hearing import Hit, patterns_of
from .clock import Instant, Joined, read
from .excerpt import excerpt
from .findings import HARMLESS
from .stamps import NONE
from .subjects import Place

MOST_MOMENTS = 200


@dataclass(frozen=True, slots=True)
class Told:
    """The timeline, its clocks, and how many lines there was no room for."""

    moments: tuple[Moment, ...]
    clocks: tuple[Clock, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What a line says, and whether a finding rests on it."""

    text: str
    root_cause: str | None = None
    proof: bool = False


def timeline(
    lines: Sequence[LogLine], heard: Mapping[str, Sequence[Hit]], rules: Sequence[Rule], places: Sequence[Place],
    findings: Sequence[Finding], ruled_out: Sequence[RuledOut], relevant: frozenset[str],
    machine: Machine, kernel_log: str, *, live: bool,
) -> Told:
    """The lines that some rule knows about one of the `relevant` addresses, with what they mean; proof is always there.

    Where there are too many, those that prove something and those about a device with a finding are kept.
    """
    owner = {hit.order: place.address for place in places for hits in place.heard.values() for hit in hits}
    means = _meanings(lines, heard, rules, findings, ruled_out)
    about = {finding.address for finding in findings if finding.address is not None}

    def device(order: int) -> str | None:
        return owner.get(order) or lines[order].address

    # A line about nobody matters where it may be the trouble; in what was sent in, where there is none, all do.
    wanted = [
        order for order, meaning in means.items() if meaning.proof or (
            device(order) in relevant if device(order) is not None
            else bool(meaning.root_cause) or not (findings or live))
    ] or list(means)
    weighty = sorted(wanted, key=lambda order: (
        not means[order].proof, device(order) not in about, means[order].root_cause is None, order))
    kept = weighty[:MOST_MOMENTS]
    clocks, instants = read(lines, kept, machine, kernel_log)
    ordered = sorted(kept, key=lambda order: (instants[order].clock, instants[order].at, order))
    ranks = _ranks([instants[order].clock for order in ordered if means[order].proof],
                   [instants[order].clock for order in ordered])
    ordered.sort(key=lambda order: ranks[instants[order].clock])
    first = {instants[order].clock: instants[order].at for order in reversed(ordered) if instants[order].own}
    moments = tuple(
        _moment(lines[order], instants[order], clocks, ranks, first, device(order), means[order]) for order in ordered)
    sources = {rank: tuple(dict.fromkeys(m.source for m in moments if m.clock == rank)) for rank in ranks.values()}
    told = tuple(_clock(clocks[number], rank, sources, first.get(number)) for number, rank in ranks.items())
    return Told(moments, told, len(wanted) - len(kept))


def _ranks(*numbers: Sequence[int]) -> dict[int, int]:
    """Clocks in the order in which they are shown: those with proof first."""
    return {number: rank for rank, number in enumerate(dict.fromkeys(one for part in numbers for one in part))}


def _meanings(
    lines: Sequence[LogLine], heard: Mapping[str, Sequence[Hit]], rules: Sequence[Rule], findings: Sequence[Finding],
    ruled_out: Sequence[RuledOut],
) -> dict[int, _Meaning]:
    """What each known line means: the finding that rests on it, else the harmless step that it is, else what it may be.

    A rule often knows a line (`Link Up`) only as one of several; where the rule does not hold, its cause is not what
    the line means.
    """
    proved = {
        (proof.source, proof.line): finding for finding in reversed(findings) for proof in finding.evidence
        if proof.line is not None
    }
    stands = {finding.id: finding for finding in reversed(findings)}
    denied = {out.rule: out.because for out in ruled_out}
    known: dict[int, list[Rule]] = {}
    for rule in rules:
        for pattern in patterns_of({key: value for key, value in rule.when.items() if key != "unless"}):
            for hit in heard.get(pattern, ()):
                known.setdefault(hit.order, []).append(rule)
    return {
        order: _meaning(by, proved.get((lines[order].source, lines[order].line)), stands, denied)
        for order, by in known.items()
    }


def _meaning(
    rules: Sequence[Rule], proves: Finding | None, stands: Mapping[str, Finding], denied: Mapping[str, str],
) -> _Meaning:
    if proves is not None:
        return _Meaning(proves.cause, proves.id, proof=True)
    harmless = next((rule for rule in rules if rule.root_cause == HARMLESS), None)
    if harmless is not None:
        return _Meaning(harmless.cause)
    finding = next((stands[rule.root_cause] for rule in rules if rule.root_cause in stands), None)
    if finding is not None:
        return _Meaning(finding.cause, finding.id)
    out = next((rule for rule in rules if rule.id in denied), None)
    if out is not None:
        return _Meaning(f"It may tell of {out.root_cause}, which is ruled out: {excerpt(denied[out.id], 160)}")
    return _Meaning(f"Often seen with {rules[0].root_cause}; by itself it proves nothing.")


def _moment(
    line: LogLine, instant: Instant, clocks: Sequence[Joined], ranks: Mapping[int, int], first: Mapping[int, float],
    device: str | None, meaning: _Meaning,
) -> Moment:
    clock = clocks[instant.clock]
    own = instant.own
    return Moment(
        time=line.time or (clock.time(instant.at) if own else None),
        monotonic=line.monotonic if line.monotonic is not None else clock.monotonic(instant.at) if own else None,
        source=line.source, line=line.line, text=excerpt(line.text), device=device, meaning=meaning.text,
        clock=ranks[instant.clock], after=round(instant.at - first[instant.clock], 6) if own else None,
        root_cause=meaning.root_cause, proof=meaning.proof,
    )


def _clock(clock: Joined, rank: int, sources: Mapping[int, tuple[str, ...]], start: float | None) -> Clock:
    """A clock with what is on it and why; or why it stands alone."""
    own = sources[rank]
    shown = [because for because in clock.because if len(own) > 1 or clock.time(0.0) is not None]
    others = [source for other, names in sources.items() if other != rank for source in names if source not in own]
    if clock.base.kind == NONE:
        shown.append("its lines carry no time; they stand in the order of the file")
    elif others:
        shown.append(f"nothing in the evidence ties it to the clock of {', '.join(dict.fromkeys(others))}")
    at = None if start is None else clock.time(start) or f"[{start:11.6f}]"
    return Clock(rank, own, at, tuple(dict.fromkeys(shown)), clock.fine)

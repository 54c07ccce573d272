"""From everything that holds to one root cause: what another finding explains is folded under it. Pure.

Then the lowest layer counts, then the earliest line; a warning is never the root while an error stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..model import LADDER, Finding, Layer, Severity, State, device_of

_LAYERS = tuple(Layer)
# bdf_rule of the taxonomy: "the topmost dead bridge when a whole branch is dead".
TOPMOST = frozenset({"device_inaccessible"})

CONFIDENCE = ("certain", "likely", "possible")
NEVER = 1 << 30     # beyond the last line of any log


@dataclass(frozen=True, slots=True)
class Ranked:
    """A finding with what ranking needs: its first line (`order`) and `last`, what it explains, the rung it blocks.

    `until`: the line from which on it is over, though it happened; what began later it does not explain.
    """

    finding: Finding
    order: int
    explains: frozenset[str]
    blocks: State | None
    place: str | None
    accelerator: bool
    ports: tuple[str, ...] = ()
    last: int = NEVER
    until: int = NEVER


def fold(ranked: Sequence[Ranked]) -> list[Ranked]:
    """The same findings, each that another one explains with `follows_from` set to that one's root cause."""
    parents: dict[int, int] = {}
    for child, one in enumerate(ranked):
        for parent, other in enumerate(ranked):
            if parent != child and _explains(other, one) and not _leads_to(parents, parent, child):
                parents[child] = parent
                break
    return [
        replace(one, finding=replace(one.finding, follows_from=ranked[parents[i]].finding.id)) if i in parents else one
        for i, one in enumerate(ranked)
    ]


def _explains(parent: Ranked, child: Ranked) -> bool:
    """Does `parent` explain `child`: by its rule, about the same place, its machine, or what lies below or above it?"""
    if parent.finding.id == child.finding.id:
        if parent.place is None or child.place is None:
            return parent.place is not None
        # The lowest function stands for its card, a dead bridge for the branch below it, else the card for its port.
        same_card = device_of(parent.place) == device_of(child.place) and parent.place < child.place
        upper, lower = (parent, child) if parent.finding.id in TOPMOST else (child, parent)
        return same_card or (upper.place in lower.ports and lower.place not in upper.ports)
    if child.finding.id not in parent.explains or child.last > parent.until:
        return False
    if child.place is None or parent.place == child.place:
        return True
    return parent.place is not None and (
        parent.place in child.ports or child.place in parent.ports
        or device_of(parent.place) == device_of(child.place)
    )


def _leads_to(parents: dict[int, int], start: int, goal: int) -> bool:
    while start in parents:
        start = parents[start]
        if start == goal:
            return True
    return False


def root_of(ranked: Iterable[Ranked], missing: State | None) -> Ranked | None:
    """The root cause among the findings of one place; `missing` is its next rung, None when not known."""
    standing = [
        one for one in ranked
        if one.finding.follows_from is None and one.finding.severity.at_least(Severity.WARNING)
    ]
    blocking = [one for one in standing if missing is not None and one.blocks is missing]
    candidates = blocking or standing
    candidates = [one for one in candidates if one.until == NEVER] or candidates
    errors = [one for one in candidates if one.finding.severity.at_least(Severity.ERROR)]
    return min(errors or candidates, key=_low_and_early, default=None)


def _low_and_early(one: Ranked) -> tuple[int, int, int, str]:
    return _LAYERS.index(one.finding.layer), one.order, -one.finding.severity.weight, one.finding.id


def worst(roots: Iterable[Ranked]) -> Ranked | None:
    """The machine's root cause: an accelerator's before another card's, the most severe, the surest, the earliest."""
    return min(
        roots, key=lambda one: (
            not one.accelerator, -one.finding.severity.weight, CONFIDENCE.index(one.finding.confidence), one.order,
            one.finding.address or "~",
        ), default=None,
    )


def next_rung(rung: State) -> State | None:
    """The rung above, None at the top or off the ladder."""
    if rung not in LADDER or rung is LADDER[-1]:
        return None
    return LADDER[LADDER.index(rung) + 1]


def reached(rung: State, wanted: State) -> bool:
    """Is `rung` at or above `wanted` on the ladder?"""
    return rung in LADDER and wanted in LADDER and LADDER.index(rung) >= LADDER.index(wanted)

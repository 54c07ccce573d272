"""Closing one index of a GRES with jobs that hold it: what to submit and what to cancel next. Pure.

Slurm drains nodes, not devices, and gives a job *some* index. So placeholders are submitted until one sits on the
index; those that landed beside it stay until then, or the next would land there again, and are cancelled after. Where a
job has the index, a placeholder of the highest priority waits for that job's end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from .text import HAS_BEGUN, Job, NodeState, Used

Kind: TypeAlias = "tuple[str, str, str | None]"     # node, name, type: what a job can ask for


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """One index of a GRES on a node."""

    node: str
    name: str
    type: str | None
    index: int

    @property
    def kind(self) -> Kind:
        """What a job asks for to be placed here, or beside it."""
        return self.node, self.name, self.type

    @property
    def gres(self) -> str:
        """`npu:ascend910b`"""
        return f"{self.name}:{self.type}" if self.type else self.name


@dataclass(frozen=True, slots=True)
class Seen:
    """A job on the nodes, or a placeholder of ours anywhere: `used` is what it has."""

    job: Job
    name: str
    used: tuple[Used, ...]
    ours: bool


@dataclass(frozen=True, slots=True)
class Moves:
    """What to do next. `closed`: every place is held by ours, or has one of ours waiting behind its holder."""

    cancel: tuple[str, ...]
    submit: tuple[tuple[Kind, str | None], ...]
    closed: bool


def holders(places: Iterable[Place], seen: Iterable[Seen]) -> Mapping[Place, Seen]:
    """Who has each place. ValueError when a job has an index as another type than we took it for."""
    found: dict[Place, Seen] = {}
    jobs = tuple(seen)
    for place in places:
        for one in jobs:
            for used in one.used:
                if (used.node, used.name) != (place.node, place.name) or place.index not in used.indices:
                    continue
                if used.type is not None and used.type != place.type:
                    raise ValueError(f"index {place.index} of {place.name} is {used.type}, not {place.type}")
                found[place] = one
    return found


def unaccounted(
    places: Iterable[Place], seen: tuple[Seen, ...], nodes: Mapping[str, NodeState]
) -> tuple[Place, ...]:
    """The places of which the node's account and that of its jobs differ: some job is hidden, or has come or gone."""
    held = holders(places, seen)
    found = []
    for place in places:
        node = nodes[place.node]
        if shown := node.used.get(place.name):
            same = (place.index in shown) == (place in held)
        else:
            listed = sum(len(used.indices) for one in seen for used in one.used
                         if (used.node, used.name) == (place.node, place.name))
            same = node.counts.get(place.name, 0) == listed
        if not same:
            found.append(place)
    return tuple(found)


def moves(places: tuple[Place, ...], seen: tuple[Seen, ...], every: tuple[Place, ...] = ()) -> Moves:
    """The next moves towards all places closed. `every` are the nodes' places, those of other cards too."""
    held = holders((*places, *every), seen)
    cancel: list[str] = []
    submit: list[tuple[Kind, str | None]] = []
    closed = True
    for kind in dict.fromkeys(place.kind for place in places):
        wanted = [place for place in places if place.kind == kind]
        idle = [place for place in wanted if place not in held]
        waiting, elsewhere, useless = _placeholders(kind, wanted, seen)
        needed: Counter[str | None] = Counter(
            held[place].job.ref if place in held else None
            for place in wanted if place not in held or not held[place].ours
        )
        if idle:    # Slurm gives the lowest idle index first: those below are filled in the same stroke
            needed[None] += sum(
                place.kind == kind and place < max(idle) and place not in held for place in set(every) - set(wanted)
            )
        for one in waiting:
            if needed[one.job.after] > 0:
                needed[one.job.after] -= 1
            else:
                cancel.append(one.job.ref)
        submit += [(kind, after) for after, count in needed.items() for _ in range(count)]
        cancel += [one.job.ref for one in useless] + ([] if idle else [one.job.ref for one in elsewhere])
        closed = closed and not idle and not any(needed.values())
    return Moves(tuple(cancel), tuple(submit), closed)


def superfluous(places: tuple[Place, ...], seen: tuple[Seen, ...]) -> tuple[str, ...]:
    """Placeholders of ours that close nothing: to be cancelled when an attempt is given up."""
    held = holders(places, seen)
    useful = {one.job.ref for one in held.values()}
    return tuple(
        one.job.ref for one in seen
        if one.ours and one.job.ref not in useful and (one.job.after is None or one.job.after not in useful)
    )


def _placeholders(
    kind: Kind, wanted: list[Place], seen: tuple[Seen, ...]
) -> tuple[list[Seen], list[Seen], list[Seen]]:
    """Ours of this kind: those that wait, those that sit beside what is wanted, those that never will be of use."""
    waiting: list[Seen] = []
    elsewhere: list[Seen] = []
    useless: list[Seen] = []
    indices = {place.index for place in wanted}
    for one in seen:
        if not one.ours:
            continue
        if one.job.state == "PENDING" and (one.job.node, *(one.job.gres or ("", None))) == kind:
            # Held jobs do not start, whoever holds them: an administrator, or Slurm after a failed launch.
            (useless if "held" in one.job.reason.lower() else waiting).append(one)
        elif one.job.state in HAS_BEGUN:
            has = [used for used in one.used if (used.node, used.name) == kind[:2] and used.type in (None, kind[2])]
            if has and not any(indices & set(used.indices) for used in has):
                elsewhere.append(one)
    return waiting, elsewhere, useless

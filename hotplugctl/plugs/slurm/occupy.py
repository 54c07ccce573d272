"""Closing single indices with placeholder jobs: the acting half of moves.py."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from ...model import Blocker
from .ask import TOP, Asking, Mapped, NoAnswerError, RefusedError
from .moves import Moves, Place, Seen, moves, superfluous
from .text import NodeState, Partition

PAUSE_S = 0.1
SPARE = 16      # placeholders that may be lost to jobs that come in between


def registered(nodes: Mapping[str, NodeState]) -> None:
    """Raise NoAnswerError for a node of which slurmctld knows no index yet, and gives none to jobs."""
    for name, node in nodes.items():
        if not node.registered and not node.closed:
            raise NoAnswerError(f"node {name} has not registered since slurmctld began, so no index is known yet")


def obstacles(asking: Asking, mapped: Mapped, nodes: Mapping[str, NodeState]) -> tuple[Blocker, ...]:
    """What forbids to close single indices here."""
    found = [f"{name} shares the card among jobs, and has no index to hold" for name in mapped.shared]
    names = {place.name for place in mapped.places}
    found += [
        f"{name} is not consumed by jobs" for node in nodes.values() for name in node.not_consumed if name in names
    ]
    settings = asking.settings()
    preempts = settings.get("PreemptType", "")
    if preempts not in ("", "(null)", "preempt/none"):
        found.append(f"jobs push each other off here ({preempts}): a placeholder might, or be pushed off itself")
    if settings.get("SelectType") == "select/linear":
        found.append("this Slurm gives whole nodes to jobs (select/linear)")
    else:
        found += [
            f"no partition of node {name} is up, open to us, and shares the node among jobs"
            for name, node in nodes.items() if not node.closed and _partition(asking, node) is None
        ]
    return tuple(Blocker("Slurm cannot keep jobs off this one device", why, "--scope node") for why in found)


def _partition(asking: Asking, node: NodeState) -> Partition | None:
    """The partition for placeholders: the one whose jobs go before all others'."""
    usable = [
        one for one in (asking.partition(name) for name in node.partitions)
        if one.up and not one.whole_nodes and (one.root or os.geteuid() != 0)
    ]
    return max(usable, key=lambda one: one.tier, default=None)


def closed(places: tuple[Place, ...], seen: tuple[Seen, ...]) -> bool:
    """Do jobs of ours hold every place, or wait behind who does, and nothing beside it?"""
    todo = _moves(places, seen)
    return bool(places) and todo.closed and not todo.cancel


def occupy(
    asking: Asking, mapped: Mapped, name: str, uid: int, comment: str, before_submit: Callable[[], None], until: float
) -> None:
    """Submit and cancel placeholders until every place is closed. Whatever the end, none but the card's stays held.

    Raises RefusedError with what Slurm says they wait for.
    """
    nodes = {node: asking.node(node) for node in mapped.nodes}
    if all(node.closed for node in nodes.values()):
        return
    registered(nodes)
    for obstacle in obstacles(asking, mapped, nodes):
        raise RefusedError(obstacle.why)
    left = len(mapped.every) + SPARE
    done = False
    try:
        while not done:
            seen = asking.seen(mapped.nodes, name, uid)
            _favoured(asking, seen)
            todo = _moves(mapped.places, seen, mapped.every)
            for ref in todo.cancel:
                asking.cancel(ref)
            done = todo.closed
            if not done and (time.monotonic() > until or left < len(todo.submit)):
                raise RefusedError(_why_not(seen))
            for (node, *kind), after in todo.submit:
                partition = _partition(asking, nodes[node])
                if partition is None:
                    raise RefusedError(f"no partition of node {node} takes a placeholder")
                before_submit()
                gres = ":".join(word for word in kind if word)
                asking.submit(node, gres, partition.name, name, comment, after)
                left -= 1
            if not done:
                asking.pause(PAUSE_S)
    finally:
        if not done:
            with suppress(NoAnswerError, RefusedError, ValueError):
                for ref in superfluous(mapped.places, asking.seen(mapped.nodes, name, uid)):
                    asking.cancel(ref)


def _favoured(asking: Asking, seen: tuple[Seen, ...]) -> None:
    """See that our placeholders have no time limit, and go before all other jobs; one that cannot is cancelled."""
    for one in seen:
        if not one.ours:
            continue
        try:
            if one.job.priority < TOP:      # sbatch passes over a --priority that it does not grant
                raise RefusedError(
                    f"placeholder {one.job.ref} got priority {one.job.priority} instead of {TOP}: "
                    "to give that takes operator rights"
                )
            if one.job.limited:
                asking.unlimit(one.job.ref)
        except RefusedError:
            asking.cancel(one.job.ref)
            raise


def _moves(places: tuple[Place, ...], seen: tuple[Seen, ...], every: tuple[Place, ...] = ()) -> Moves:
    try:
        return moves(places, seen, every)
    except ValueError as error:
        raise NoAnswerError(str(error)) from error


def _why_not(seen: tuple[Seen, ...]) -> str:
    """What Slurm says that our placeholders wait for."""
    waiting = [one.job for one in seen if one.ours and one.job.state == "PENDING" and one.job.after is None]
    if not waiting:
        return "no placeholder came to sit on the index in time"
    return f"placeholder {waiting[0].ref} waits: {waiting[0].reason}"

"""Slurm: which jobs have a card, and keeping new ones off it.

A device is closed by jobs of ours that hold its indices (moves.py says how), a node by its state DRAIN. The count of a
node's GRES is never changed: Slurm takes that, forgets who has which index, and kills the jobs at its next reconfigure
(Slurm 22.05, measured).
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import Exit, HotplugError
from ...host.live import Live
from ...model import Accelerator, Blocker, Kind, Placement, Unknown, Work
from ..schedulers import Remembered
from .ask import Asking, Mapped, NoAnswerError, RefusedError
from .moves import Place, Seen, holders, unaccounted
from .occupy import PAUSE_S, closed, obstacles, occupy, registered
from .text import HAS_BEGUN, NodeState, denied

# The last is where slurmd keeps what slurmctld sent it ("configless", slurm.conf(5)).
CONFIGURATIONS = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf")


def here(host: Live) -> Slurm | None:
    """This machine's Slurm; None where there is no slurm.conf."""
    named = os.environ.get("SLURM_CONF")
    conf = named or next((path for path in CONFIGURATIONS if isinstance(host.real(path), str)), None)
    return Slurm(host, conf) if conf else None


class Slurm:
    """The Slurm that a slurm.conf belongs to.

    What it remembers: `token`, in the name of its jobs and in the reason of nodes; `uid`, who submits; `conf`; `card`;
    `places`, the indices to hold; `nodes`, those it drained, with the state before.
    """

    name = "slurm"

    def __init__(self, host: Live, conf: str) -> None:
        self._host = host
        self._conf = conf

    def _asking(self, ours: Remembered) -> Asking:
        """By the slurm.conf of the cordon, should the operator's environment be another one now."""
        return Asking(self._host, str(ours.get("conf") or self._conf))

    # Looking

    def placement(self, card: Accelerator, scope: str, ours: Remembered) -> Placement:
        """As in Scheduler."""
        try:
            return self._placement(self._asking(ours), card, scope, ours)
        except NoAnswerError as error:
            silent = Unknown(f"Slurm does not answer: {error}", Kind.IO)
            return Placement(
                scheduler=self.name, where=_where((), _kept(ours)), closed=silent, work=silent,
                blockers=(Blocker("Slurm does not answer", str(error), "--scheduler none"),),
            )

    def _placement(self, asking: Asking, card: Accelerator, scope: str, ours: Remembered) -> Placement:
        asking.ping()
        mapped = _mapped(asking, card, ours)
        by_index = scope == "device"
        if not mapped.nodes or (by_index and not mapped.places and not mapped.shared):
            return Placement(
                scheduler=self.name, where=_nowhere(mapped, card), closed=None, warnings=mapped.warnings
            )
        nodes, seen, unclear = self._seen(asking, mapped, ours)
        if by_index:
            registered(nodes)
        token = _token(ours)
        drained = all(node.closed for node in nodes.values())
        mine = drained and token is not None and all(_has_token(node, token) for node in nodes.values())
        held = by_index and not mapped.shared and closed(mapped.places, seen)
        warnings = mapped.warnings + tuple(
            f"job {one.job.ref} is ending, and Slurm says no more which index it had"
            for one in seen if one.job.state == "COMPLETING" and not one.ours
        )
        if drained and not mine and not held:
            warnings += tuple(
                f"node {name} gets no jobs, which is not our doing ({node.reason or 'no reason is given'}): "
                "whoever puts it back in service opens the card too" for name, node in nodes.items()
            )
        return Placement(
            scheduler=self.name, where=_where(mapped.nodes, mapped.places), closed=drained or held, ours=held or mine,
            work=_work(mapped, seen) if unclear is None else unclear, warnings=warnings,
            blockers=() if drained or held or not by_index else obstacles(asking, mapped, nodes),
        )

    @staticmethod
    def _seen(
        asking: Asking, mapped: Mapped, ours: Remembered
    ) -> tuple[Mapping[str, NodeState], tuple[Seen, ...], Unknown | None]:
        """The nodes and their jobs; Unknown when an index is in use, and no job that we are shown has it."""
        for attempt in range(3):    # nodes and jobs are asked one after the other: a job may begin or end between
            nodes = {name: asking.node(name) for name in mapped.nodes}
            seen = asking.seen(mapped.nodes, _job_name(ours), _uid(ours))
            try:
                differs = unaccounted(mapped.places, seen, nodes)
            except ValueError as error:
                raise NoAnswerError(str(error)) from error
            if not differs:
                break
            if attempt < 2:
                asking.pause(PAUSE_S)
        else:
            why = f"Slurm shows no job that matches the use of {_where((), differs)} (PrivateData hides jobs)"
            return nodes, seen, Unknown(why, Kind.DENIED)
        names = {(place.node, place.name) for place in mapped.places}
        for one in seen:
            if any((used.node, used.name) in names and not used.indices for used in one.used) and not one.ours:
                return nodes, seen, Unknown(f"job {one.job.ref} runs, and Slurm gave it no index", Kind.IO)
        return nodes, seen, None

    # Closing

    def cordon(
        self, card: Accelerator, scope: str, ours: Remembered, keep: Callable[[Remembered], None], deadline: float
    ) -> None:
        """As in Scheduler."""
        until = time.monotonic() + deadline
        asking = self._asking(ours)
        what, again = f"Slurm does not keep work off {card.address}", f"hotplugctl drain {card.address}"
        try:
            asking.ping()
            mapped = _mapped(asking, card, ours)
            kept: dict[str, Any] = {
                **ours, "conf": asking.conf, "token": _token(ours) or secrets.token_hex(4), "uid": _uid(ours),
                "card": card.address,
            }
            if scope == "node":
                self._drain(asking, mapped.nodes, card, kept, keep)
            elif mapped.places or mapped.shared:
                kept["places"] = [[place.node, place.name, place.type, place.index] for place in mapped.places]
                occupy(
                    asking, mapped, str(_job_name(kept)), kept["uid"], f"hotplugctl keeps work off {card.address}",
                    lambda: keep(kept), until,
                )
        except NoAnswerError as error:
            raise _silence(what, error) from error
        except RefusedError as error:
            raise _refusal(what, error, again, again if scope == "node" else f"{again} --scope node") from error

    @staticmethod
    def _drain(
        asking: Asking, nodes: tuple[str, ...], card: Accelerator, kept: Mapping[str, Any],
        keep: Callable[[Remembered], None],
    ) -> None:
        for name in nodes:
            before = asking.node(name)
            if before.closed:       # ours already, or an administrator's, who alone puts it back in service
                continue
            kept = {**kept, "nodes": {**kept.get("nodes", {}), name: "+".join(sorted(before.words))}}
            keep(kept)
            asking.set_state(name, "DRAIN", f"hotplugctl {kept['token']} drains {card.address}")
            if not asking.node(name).closed:
                raise RefusedError(f"node {name} stays in service")

    def foresee(self, card: Accelerator, deadline: float) -> str | Unknown | None:
        """As in Scheduler: Slurm has no dry run."""
        return None

    # Opening, stopping

    def uncordon(self, ours: Remembered, deadline: float) -> None:
        """As in Scheduler."""
        token = _token(ours)
        if token is None:
            return
        asking, until = self._asking(ours), time.monotonic() + deadline
        what = "Slurm's part of the drain is not taken back"
        try:
            asking.ping()
            for name in ours.get("nodes", {}):
                self._resume(asking, name, token)
            name, uid = str(_job_name(ours)), _uid(ours)
            while left := asking.placeholders(name, uid) if "places" in ours else ():
                if time.monotonic() > until:
                    raise RefusedError(f"job {left[0].ref} does not end ({left[0].state})")
                for job in left:
                    asking.cancel(job.ref)
                asking.pause(PAUSE_S)
        except NoAnswerError as error:
            raise _silence(what, error) from error
        except RefusedError as error:
            by_hand = f"scancel --name={_job_name(ours)}"
            raise _refusal(what, error, f"hotplugctl drain {ours.get('card', '')} --undo", by_hand) from error

    @staticmethod
    def _resume(asking: Asking, name: str, token: str) -> None:
        """Back in service, if the reason is still ours; what an administrator has decided since stays."""
        try:
            node = asking.node(name)
        except NoAnswerError as error:
            if "not found" in str(error):   # no node of this Slurm any more
                return
            raise
        if "DRAIN" not in node.words or not _has_token(node, token):
            return
        # RESUME would also lift DOWN, which came from somebody else (scontrol(1), UNDRAIN).
        asking.set_state(name, "UNDRAIN" if "DOWN" in node.words else "RESUME")

    def stop(self, work: Work, grace_s: float) -> str | None:
        """As in Scheduler: SIGTERM, and SIGKILL after Slurm's own KillWait, whatever `grace_s` is: as scancel does."""
        try:
            asking = self._asking({})
            asking.ping()
            asking.cancel(work.id)
        except (NoAnswerError, RefusedError) as error:
            return str(error)
        return None


def _mapped(asking: Asking, card: Accelerator, ours: Remembered) -> Mapped:
    """Where the card is; one that is gone is where it was."""
    kept = _kept(ours)
    try:
        mapped = asking.mapped(card.nodes)
    except NoAnswerError:
        if not kept:
            raise
        mapped = Mapped((), ())
    places = mapped.places or kept
    nodes = tuple(dict.fromkeys(place.node for place in places)) or tuple(ours.get("nodes", ())) or mapped.nodes
    return Mapped(nodes, places, mapped.shared, mapped.warnings, mapped.every)


def _kept(ours: Remembered) -> tuple[Place, ...]:
    return tuple(Place(*place) for place in ours.get("places", ()))


def _token(ours: Remembered) -> str | None:
    return ours.get("token")


def _uid(ours: Remembered) -> int:
    uid = ours.get("uid")
    return uid if isinstance(uid, int) else os.geteuid()


def _job_name(ours: Remembered) -> str | None:
    token = _token(ours)
    return f"hotplugctl-{token}" if token else None


def _has_token(node: NodeState, token: str) -> bool:
    return f"hotplugctl {token} " in f"{node.reason} "


def _work(mapped: Mapped, seen: tuple[Seen, ...]) -> tuple[Work, ...]:
    """The jobs on the card's indices; where it has none, all jobs of the node: any of them may use the card."""
    there = holders(mapped.places, seen).values() if mapped.places and not mapped.shared else (
        one for one in seen if one.job.state in HAS_BEGUN
    )
    jobs = {one.job.ref: one for one in there if not one.ours}
    return tuple(
        Work(ref, one.name.partition("\n")[0] or None, one.job.user, one.job.state.lower(), f"scancel {ref}",
             one.job.since)
        for ref, one in jobs.items()
    )


def _where(nodes: tuple[str, ...], places: tuple[Place, ...]) -> str:
    """`node n1, gres npu:ascend910b, index 2`"""
    kinds = dict.fromkeys(place.kind for place in places)
    if not kinds:
        return f"node {', '.join(nodes)}" if nodes else "node unknown"
    said = []
    for kind in kinds:
        those = [place for place in places if place.kind == kind]
        numbers = ", ".join(str(place.index) for place in those)
        said.append(f"node {kind[0]}, gres {those[0].gres}, {'index' if len(those) == 1 else 'indices'} {numbers}")
    return "; ".join(said)


def _nowhere(mapped: Mapped, card: Accelerator) -> str:
    if not mapped.nodes:
        return "this machine is no node of its Slurm"
    return f"{_where(mapped.nodes, ())}, no GRES of which names {', '.join(card.nodes) or card.address}"


def _silence(what: str, error: NoAnswerError) -> HotplugError:
    return HotplugError(what, why=f"it does not answer: {error}", hint="scontrol ping", exit=Exit.FAILED)


def _refusal(what: str, refused: RefusedError, again: str, otherwise: str) -> HotplugError:
    if denied(str(refused)) and os.geteuid() != 0:
        return HotplugError(what, why=str(refused), hint=f"sudo {again}", exit=Exit.DENIED)
    return HotplugError(what, why=str(refused), hint=otherwise, exit=Exit.FAILED)

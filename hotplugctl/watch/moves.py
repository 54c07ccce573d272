"""From one look to the next: what became of a device, as Changes. Pure.

A *track* is all that is remembered of one place (a slot, or an address without one) between two looks. `advance` takes
a track, the device as it is now and the signs gathered meanwhile, and gives the next track and what to say. Which move
means what stands in the tables; nothing here reads, waits or sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..model import LADDER, Budget, ChangeKind, Device, Errors, State

FLAPS = 3            # departures by surprise within FLAP_WINDOW_S: said once, until it has been quiet that long
FLAP_WINDOW_S = 120.0
LEAVING_S = 5.0      # so long a card whose removal has begun is not judged: it is half there, and looks like a failure
QUEUE_S = 10.0       # the kernel brings up one slot after the other: a card that waits for its turn is not late
BUTTON_S = 5.0       # pciehp waits that long after a press (drivers/pci/hotplug/pciehp_ctrl.c)


@dataclass(frozen=True, slots=True)
class Signs:
    """What was heard of a place since the last look; times are monotonic seconds, None = not heard.

    `present`, `enumerated`, `bound`, `node`: when the slot saw the card, the bus did, its driver was bound, its node
    made. `leaving`: the start of a removal.
    `kernel` are the device's own lines that say why it is stuck; `errors` those of AER and recovery.
    """

    present: float | None = None
    enumerated: float | None = None
    bound: float | None = None
    node: float | None = None
    leaving: float | None = None
    surprise: tuple[str, ...] = ()
    button_off: float | None = None
    button_cancel: float | None = None
    recovery: str | None = None      # begin, done, failed
    wedged: bool = False
    kernel: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    ours: bool = False               # our own drain did it
    draining: tuple[float | None, ...] = ()     # announced: seconds that are left, if it was said
    undone: bool = False


QUIET = Signs()


@dataclass(frozen=True, slots=True)
class Track:
    """What is remembered of one place. `since`: the start of the budget; `stages`: seconds until each rung."""

    key: str
    device: Device
    since: float
    queued: float = 0.0
    stages: Mapping[str, float] = field(default_factory=dict)
    settled: bool = False            # ready once, failed, or there when the watch began: no budget runs
    late: bool = False
    failed: bool = False
    degraded: bool = False
    expecting_removal: bool = False
    leaving: float | None = None
    surprise: tuple[str, ...] = ()
    seated: bool = False             # off the bus, and still in its slot
    former: Device | None = None     # the card that was here before, to tell an exchange once the new one is known
    replaces: Mapping[str, Any] | None = None
    departures: tuple[float, ...] = ()
    flapping: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """One thing to say; `watch` makes a Change of it (id, time, batch, diagnosis)."""

    kind: ChangeKind
    device: Device
    before: State | None
    after: State | None
    expected: bool | None = None
    because: tuple[str, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    budget: Budget | None = None
    replaces: Mapping[str, Any] | None = None
    deadline_s: float | None = None
    wants_diagnosis: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets in seconds."""

    add: float = 3.0
    remove: float = 1.0


def first(key: str, device: Device, now: float) -> Track:
    """The track of a device that was there when the watch began."""
    return Track(key, device, now, settled=True, failed=device.state is State.FAILED)


def advance(
    key: str, track: Track | None, device: Device | None, signs: Signs, now: float, limits: Limits
) -> tuple[Track | None, list[Move]]:
    """The next track of a place, and what happened there."""
    if device is None:
        return _gone(track, signs, now, limits) if track is not None else (None, [])
    if track is None:
        return _came(key, track, device, signs, now, limits)
    if track.device.state in (State.ABSENT, State.REMOVED):
        if device.address is None and track.seated and signs.present is None:
            return track, []     # the card that was taken off the bus still sits in its slot
        return _came(key, track, device, signs, now, limits)
    if device.address is None and track.device.address is not None:
        gone, moves = _gone(track, signs, now, limits)
        return replace(gone, seated=True) if gone is not None else None, moves
    if other := _other_card(track.device, device):
        moved, moves = _came(key, None, device, signs, now, limits)
        swap = replace(moves[0], kind=ChangeKind.REPLACED, before=track.device.state, replaces=other)
        return moved, [swap, *moves[1:]]
    return _stayed(track, device, signs, now, limits)


def _came(
    key: str, track: Track | None, device: Device, signs: Signs, now: float, limits: Limits
) -> tuple[Track, list[Move]]:
    known = signs.enumerated if device.address is not None else signs.present
    since = min(known, now) if known is not None else now
    queued = max(0.0, since - signs.present) if signs.present is not None and device.address is not None else 0.0
    gone = track.device if track is not None else None
    new = Track(
        key, device, since, queued, _reached({}, None, device, since, now, signs),
        departures=track.departures if track is not None else (), flapping=track is not None and track.flapping,
        former=gone,
    )
    said = [Move(
        ChangeKind.ADDED, device, gone.state if gone is not None else State.ABSENT, device.state,
        timings=_timings(new), replaces=_other_card(gone, device) if gone is not None else None,
    )]
    if device.state is State.READY:
        said.append(_passed(new, device, device.state))
    return _judged(new, device, signs, now, limits, said)


def _passed(track: Track, device: Device, before: State) -> Move:
    """The rung below READY, for a card that was seen only beyond it."""
    below = replace(device, state=State.INITIALISED, rung=State.INITIALISED)
    return Move(ChangeKind.PROGRESS, below, before, State.INITIALISED, timings=_timings(track), replaces=track.replaces)


def _stayed(track: Track, device: Device, signs: Signs, now: float, limits: Limits) -> tuple[Track, list[Move]]:
    before = track.device
    if before.address is None and device.address is not None:   # now the bus shows it, and its own time begins
        since = min(signs.enumerated, now) if signs.enumerated is not None else now
        other = _other_card(track.former, device) if track.former is not None else None
        track = replace(
            track, since=since, queued=max(0.0, since - track.since), stages={}, late=False, replaces=other)
    stages = _reached(track.stages, before if track.stages else None, device, track.since, now, signs)
    leaving = signs.leaving if track.leaving is None else track.leaving
    if leaving is None and _goes_unsaid(track, device):
        leaving = now
    new = replace(
        track, device=device, stages=stages, surprise=(*track.surprise, *signs.surprise), leaving=leaving)
    if device.state is State.DRAINED:
        said = [] if before.state is State.DRAINED else [Move(
            ChangeKind.DRAINED, device, before.state, device.state, expected=True, because=_hold(device))]
        return replace(new, leaving=None, surprise=(), expecting_removal=True, settled=True), said
    if new.leaving is not None:
        if now - new.leaving < LEAVING_S and signs.button_cancel is None:
            return replace(new, device=replace(before, errors=device.errors)), []
        new = replace(new, leaving=None, surprise=())
    if new.expecting_removal and signs.button_cancel is None and _rung(device) < _rung(before):
        return replace(new, device=replace(before, errors=device.errors)), []     # on its way out, as announced
    said = []
    if signs.button_off is not None and (signs.button_cancel or 0.0) <= signs.button_off:
        new = replace(new, expecting_removal=True)
        left = max(0.0, BUTTON_S - (now - signs.button_off))
        said.append(Move(ChangeKind.DRAINING, device, before.state, device.state, expected=True, deadline_s=left,
                         because=("the attention button was pressed",)))
    elif signs.button_cancel is not None:
        new = replace(new, expecting_removal=False)
        said.append(Move(ChangeKind.RECOVERED, device, before.state, device.state,
                         because=("the attention button was pressed again: the removal is cancelled",)))
    began = device.state is State.DRAINING and before.held is None
    if (signs.draining or began) and not new.expecting_removal:      # repeated every 10 s, said once
        new = replace(new, expecting_removal=True)
        said.append(Move(ChangeKind.DRAINING, device, before.state, device.state, expected=True,
                         deadline_s=signs.draining[0] if signs.draining else None, because=("a drain announced it",)))
    elif signs.undone and (new.expecting_removal or before.held is not None):
        new = replace(new, expecting_removal=False, settled=False, late=False, failed=False, since=now, stages={})
        said.append(Move(ChangeKind.RECOVERED, device, before.state, device.state, because=("the drain was undone",)))
    new, health = _health(new, before, device, signs)
    said += health
    if device.state is State.READY and not new.settled and _rung(before) < LADDER.index(State.INITIALISED) + 1:
        said.append(_passed(new, device, before.state))
    climbed = _rung(device) > _rung(before) and device.state is not State.READY
    lacks_other = not said and not new.settled and device.missing != before.missing and device.state is before.state
    if climbed or lacks_other:
        said.append(Move(
            ChangeKind.PROGRESS, device, before.state, device.state, timings=_timings(new), replaces=new.replaces))
    if said:
        new = replace(new, replaces=None)     # said once
    return _judged(new, device, signs, now, limits, said, before=before)


def _goes_unsaid(track: Track, device: Device) -> bool:
    """Has its driver gone before any event of it? sysfs shows a card unbound from before its driver's remove is called,
    and the first event may come seconds later (drivers/base/dd.c, __device_release_driver)."""
    bound = LADDER.index(State.BOUND) + 1
    return track.settled and device.state is not State.FAILED and _rung(device) < bound <= _rung(track.device)


def _judged(
    track: Track, device: Device, signs: Signs, now: float, limits: Limits, said: list[Move],
    *, before: Device | None = None,
) -> tuple[Track, list[Move]]:
    """Ready, failed or late: what the budget and the kernel's word make of it."""
    was = before.state if before is not None else device.state
    took = now - track.since
    if device.held is not None:     # out of service by our own doing: no budget runs, and nothing is late
        return track, said
    if device.state is State.READY:
        if not track.settled or (before is not None and before.state is not State.READY and track.failed):
            budget = Budget(limits.add, round(took, 3), took <= limits.add)
            said.append(Move(ChangeKind.READY, device, was, device.state, timings=_timings(track), budget=budget))
        return replace(track, settled=True, failed=False, late=False), said
    stuck = device.state is State.FAILED or bool(signs.kernel) or signs.recovery == "failed"
    if stuck and not track.failed:
        because = signs.kernel or signs.errors or ((device.missing,) if device.missing else ())
        said.append(Move(ChangeKind.FAILED, device, was, device.state, because=because, timings=_timings(track),
                         budget=None if track.settled else Budget(limits.add, round(took, 3), False),
                         wants_diagnosis=True))
        return replace(track, failed=True, settled=True), said
    patience = limits.add if device.address is not None else limits.add + QUEUE_S
    if not track.settled and not track.late and took > patience:
        said.append(Move(ChangeKind.LATE, device, was, device.state, timings=_timings(track),
                         because=(device.missing,) if device.missing else (),
                         budget=Budget(limits.add, round(took, 3), None), wants_diagnosis=True))
        return replace(track, late=True), said
    return track, said


def _health(track: Track, before: Device, device: Device, signs: Signs) -> tuple[Track, list[Move]]:
    """Errors that came and went, and a card that lost rungs."""
    if signs.recovery == "done" and (track.degraded or signs.errors):
        begun = [] if track.degraded else [
            Move(ChangeKind.DEGRADED, device, before.state, device.state, because=signs.errors)]
        return replace(track, degraded=False), [
            *begun, Move(ChangeKind.RECOVERED, device, before.state, device.state,
                         because=("the kernel's error recovery succeeded",))]
    worse = _worse_errors(before, device)
    lost = track.settled and not track.failed and State.FAILED not in (before.state, device.state) and (
        _rung(device) < _rung(before))
    if (signs.recovery == "begin" or signs.wedged or worse or lost) and not track.degraded:
        because = signs.errors or worse or ((device.missing,) if device.missing else ())
        return replace(track, degraded=True), [
            Move(ChangeKind.DEGRADED, device, before.state, device.state, because=because)]
    if track.degraded and device.state is State.READY and before.state is not State.READY:
        return replace(track, degraded=False), [
            Move(ChangeKind.RECOVERED, device, before.state, device.state, because=("it is ready again",))]
    return track, []


def _worse_errors(before: Device, device: Device) -> tuple[str, ...]:
    """Non-fatal and fatal counters that moved; correctable ones are a note, not a change."""
    if not isinstance(before.errors, Errors) or not isinstance(device.errors, Errors):
        return ()
    found = []
    for name in ("nonfatal", "fatal"):
        was, now = getattr(before.errors, name), getattr(device.errors, name)
        if isinstance(was, int) and isinstance(now, int) and now > was:
            found.append(f"{name} PCIe errors went from {was} to {now}")
    return tuple(found)


def _hold(device: Device) -> tuple[str, ...]:
    return (f"{device.held.by}: {device.held.reason}",) if device.held is not None else ()


def _gone(track: Track, signs: Signs, now: float, limits: Limits) -> tuple[Track | None, list[Move]]:
    if track.device.state in (State.ABSENT, State.REMOVED):
        return track, []
    device = replace(track.device, state=State.REMOVED, rung=State.REMOVED, missing="the card", nodes=None, driver=None)
    expected = track.expecting_removal or signs.ours or track.device.held is not None
    proof = (*track.surprise, *signs.surprise)
    surprise = bool(proof) and not expected
    began = [at for at in (track.leaving, signs.leaving) if at is not None]
    took = max(0.0, now - min(began, default=now))
    recent = tuple(at for at in track.departures if now - at < FLAP_WINDOW_S)
    departures = (*recent, now) if surprise else recent
    said = [Move(
        ChangeKind.SURPRISE_REMOVED if surprise else ChangeKind.REMOVED, device, track.device.state, State.REMOVED,
        expected=expected, because=proof if surprise else (), timings={"removal": round(took, 3)},
        budget=Budget(limits.remove, round(took, 3), took <= limits.remove),
    )]
    flapping = track.flapping and bool(recent)
    if len(departures) >= FLAPS and not flapping:
        said.append(Move(ChangeKind.FLAPPING, device, track.device.state, State.REMOVED,
                         because=(f"left {len(departures)} times within {FLAP_WINDOW_S:g} s",)))
        flapping = True
    return Track(track.key, device, now, settled=True, departures=departures, flapping=flapping), said


def _other_card(before: Device, device: Device) -> dict[str, Any] | None:
    """What the card that was here before was, when it is known to be another one; ids, serial and UUID tell."""
    told = [
        (name, getattr(before, name), getattr(device, name)) for name in ("vendor_id", "device_id", "serial", "uuid")
    ]
    if not any(isinstance(a, str) and isinstance(b, str) and a != b for _, a, b in told):
        return None
    return {name: was for name, was, _ in told if isinstance(was, str)} | {"model": before.model}


def _rung(device: Device) -> int:
    """How high, 0 below the ladder."""
    return LADDER.index(device.rung) + 1 if device.rung in LADDER else 0


def _reached(
    stages: Mapping[str, float], before: Device | None, device: Device, since: float, now: float, signs: Signs
) -> dict[str, float]:
    """The rungs reached so far, each with its seconds since enumeration; an event tells the time better than a look."""
    heard = {State.IDENTIFIED: signs.enumerated, State.BOUND: signs.bound, State.INITIALISED: signs.node}
    first_new = _rung(before) if before is not None else 0
    new: dict[str, float] = {}
    latest = now - since     # a rung that was only looked at was reached no later than the one above it
    for rung in reversed(LADDER[first_new:_rung(device)]):
        at = heard.get(rung)
        latest = max(0.0, at - since) if at is not None else max(0.0, latest)
        new[rung.value] = round(latest, 3)
    return {**new, **stages}


def _timings(track: Track) -> dict[str, float]:
    queued = {"queued": round(track.queued, 3)} if track.queued else {}
    order = [rung.value for rung in LADDER if rung.value in track.stages]
    times = {name: track.stages[name] for name in order}
    highest = 0.0
    for name, seconds in times.items():     # a rung is never reached before the one below it
        highest = times[name] = max(highest, seconds)
    return {**queued, **times}

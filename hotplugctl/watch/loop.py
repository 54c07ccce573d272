"""The loop: wait, look again at what is dirty, say what changed. Nothing slow happens in it.

Events only mark places dirty. The first event of a quiet time is acted on at once; what follows within 200 ms carries
the same batch id, 2 s at most. A device on its way up is looked at again after 0.1, 0.2, 0.4 ... 5 s, and everything
every 30 s, since readiness often has no event of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from .. import config
from ..lifecycle import kernel_says
from ..model import LADDER, Change, ChangeKind, Device, Finding, LogLine, State, Uevent, iso_time
from ..readers import logs
from . import signs as hearing
from .moves import Limits, Move, Signs, Track, advance, first
from .scene import Scene

FIRST_LOOK_S, LAST_LOOK_S, RECONCILE_S = 0.1, 5.0, 30.0
BATCH_S, LONGEST_BATCH_S = 0.2, 2.0
LINES_KEPT = 200     # a device's own kernel lines since it was enumerated


@dataclass(frozen=True, slots=True)
class Wake:
    """Why the loop woke: what was heard, and how much was lost. `at` is monotonic seconds, `time` since the epoch."""

    at: float
    time: float
    uevents: tuple[Uevent, ...] = ()
    log: str = ""
    log_offset: float = 0.0      # seconds from the log's clock to the monotonic one (host/kmsg.py)
    lost: int = 0
    checked: bool = False        # a health check ended: look at its device again
    ended: bool = False          # no more will come: a replay is over, or the watch was told to end


class Source(Protocol):
    """Where wake-ups come from: this machine, or a recorded run."""

    def wait(self, timeout: float) -> Wake:
        """The next wake-up, after `timeout` seconds at the latest."""


class Checker(Protocol):
    """Runs second handshakes on workers, and wakes the loop when one has ended."""

    def ask(self, scene: Scene, device: Device) -> None:
        """See that the device's health check runs, if it needs one and none is running."""


@dataclass
class Watch:
    """One run of the watch. `diagnose` finds the root cause of a device that failed or is late."""

    scene: Scene
    source: Source
    checker: Checker
    limits: Limits
    diagnose: Callable[[Scene, Device], Finding | None]
    boot: str = ""
    batch_s: float = BATCH_S
    deadline: float | None = None     # monotonic seconds at which the watch ends by itself
    tracks: dict[str, Track] = field(default_factory=dict)
    lines: dict[str, list[LogLine]] = field(default_factory=dict)
    looks: dict[str, tuple[float, float]] = field(default_factory=dict)   # key -> (next look, interval)
    reconcile_at: float = 0.0
    _batch: tuple[str, float, float] = ("", -9e9, -9e9)                    # id, began, last
    _said: int = 0

    def changes(self) -> Iterator[Change]:
        """Every Change, a snapshot first, until the source ends."""
        wake = self.source.wait(0.0)
        self.scene.everything()
        now = wake.at
        self.tracks = {key: first(key, device, now) for key, device in self.scene.devices.items()}
        for device in self.scene.devices.values():
            self.checker.ask(self.scene, device)
        self.reconcile_at = now + RECONCILE_S
        yield self._snapshot(ChangeKind.SNAPSHOT, wake)
        while not wake.ended and (self.deadline is None or wake.at < self.deadline):
            wake = self.source.wait(max(0.0, self._next_look() - wake.at))
            yield from self._woken(wake)

    def _next_look(self) -> float:
        ends = () if self.deadline is None else (self.deadline,)
        soonest: float = min((self.reconcile_at, *ends, *(at for at, _ in self.looks.values())))
        return soonest

    def _woken(self, wake: Wake) -> Iterator[Change]:
        lines = _lines(wake)
        heard = hearing.gather(wake.uevents, lines, self._place)
        due = {key for key, (at, _) in self.looks.items() if at <= wake.at}
        whole = wake.lost > 0 or wake.at >= self.reconcile_at
        if not (whole or due or wake.checked or heard.addresses or heard.slots):
            return
        for event in wake.uevents:
            if event.subsystem == "pci" and event.action in ("unbind", "remove"):
                self.scene.forget_health(event.devpath.rsplit("/", 1)[1])
        before = dict(self.scene.devices)
        if whole:
            self.scene.everything()
            self.reconcile_at = wake.at + RECONCILE_S
        else:
            asked = {d.address for key, d in before.items() if d.address is not None and (wake.checked or key in due)}
            self.scene.again(heard.addresses | asked, heard.slots)
        heard = hearing.gather(wake.uevents, lines, self._place)   # again: a card that has just come has its place now
        self._remember(lines)
        said = [change for key in self._touched(before, heard, due, whole=whole, checked=wake.checked)
                for change in self._advanced(key, heard.of(key), wake)]
        if wake.lost:
            yield replace(self._snapshot(ChangeKind.RESYNC, wake), lost=wake.lost)
        yield from said

    def _touched(
        self, before: dict[str, Device], heard: hearing.Heard, due: set[str], *, whole: bool, checked: bool
    ) -> list[str]:
        """The places worth a judgement, in the order of the machine."""
        now = self.scene.devices
        keys = [*before, *(key for key in now if key not in before)]
        return [
            key for key in keys
            if whole or checked or key in due or key in heard.signs or before.get(key) is not now.get(key)
        ]

    def _advanced(self, key: str, signs: Signs, wake: Wake) -> Iterator[Change]:
        device = self.scene.devices.get(key)
        if device is not None and device.rung in LADDER and device.rung is not State.READY:
            signs = replace(signs, kernel=self._stuck(key, device)) if device.sure else signs
        track, moves = advance(key, self.tracks.get(key), device, signs, wake.at, self.limits)
        if track is None:
            self.tracks.pop(key, None)
        else:
            self.tracks[key] = track
        self._plan_look(key, track, wake.at)
        if device is None:
            self.lines.pop(key, None)
        else:
            self.checker.ask(self.scene, device)
        for move in moves:
            yield self._change(key, move, wake)

    def _stuck(self, key: str, device: Device) -> tuple[str, ...]:
        """The kernel's word on the very rung that is missing."""
        missing = LADDER[LADDER.index(device.rung) + 1]
        word = kernel_says(self.lines.get(key, ()), device.address).get(missing)
        return (word,) if word is not None else ()

    def _remember(self, lines: tuple[LogLine, ...]) -> None:
        for line in lines:
            key = self._place(line.address) if line.address is not None else None
            if key is None:
                continue
            own = self.lines.setdefault(key, [])
            if hearing.ENUMERATED.search(line.text):
                own.clear()
            own.append(line)
            del own[:-LINES_KEPT]

    def _plan_look(self, key: str, track: Track | None, now: float) -> None:
        """A device on its way up is looked at again soon; one that is ready, gone or stuck at events and reconciles."""
        leaving = track is not None and track.leaving is not None
        if track is None or (track.settled and not leaving) or track.device.state in (State.REMOVED, State.ABSENT):
            self.looks.pop(key, None)
            return
        at, interval = self.looks.get(key, (now, FIRST_LOOK_S / 2))
        if at <= now:
            interval = min(interval * 2, LAST_LOOK_S)
            at = now + interval
        # The moment the budget ends is a look of its own.
        over = track.since + self.limits.add + 0.001
        self.looks[key] = (min(at, over) if not track.late and over > now else at, interval)

    def _place(self, where: str) -> str | None:
        if where.startswith("slot:"):
            return self.scene.slot_key(where[5:])
        return self.scene.port_key(where) or self.scene.key_of(where) or next(
            (key for key, track in self.tracks.items() if track.device.address == where), None)

    def _change(self, key: str, move: Move, wake: Wake) -> Change:
        device = move.device
        finding = self.diagnose(self.scene, device) if move.wants_diagnosis else None
        return Change(
            id=self._id(key, move.kind, wake), time=iso_time(wake.time), monotonic=round(wake.at, 6), kind=move.kind,
            address=device.address, slot=device.slot if isinstance(device.slot, str) else None, device=device,
            before=move.before, after=move.after, expected=move.expected, sure=device.sure, missing=device.missing,
            because=move.because, timings=move.timings, budget=move.budget, batch=self._batch_of(wake.at),
            replaces=move.replaces, diagnosis=finding, deadline_s=move.deadline_s, labels=device.labels,
        )

    def _snapshot(self, kind: ChangeKind, wake: Wake) -> Change:
        standing = tuple(self.scene.devices.values())
        return Change(
            id=self._id("", kind, wake), time=iso_time(wake.time), monotonic=round(wake.at, 6), kind=kind,
            devices=len(standing), standing=standing,
        )

    def _id(self, key: str, kind: ChangeKind, wake: Wake) -> str:
        """The same in a replay of the run, and of no other run: boot, place, moment, and its number in the run."""
        self._said += 1
        text = f"{self.boot}|{key}|{kind.value}|{wake.at:.6f}|{self._said}"
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def _batch_of(self, now: float) -> str:
        name, began, last = self._batch
        if now - last > self.batch_s or now - began > max(LONGEST_BATCH_S, self.batch_s):
            name, began = hashlib.sha256(f"{self.boot}|batch|{now:.6f}".encode()).hexdigest()[:12], now
        self._batch = (name, began, now)
        return name


def _lines(wake: Wake) -> tuple[LogLine, ...]:
    """The kernel lines of a wake-up, on the clock of the events."""
    if not wake.log:
        return ()
    return tuple(
        replace(line, monotonic=line.monotonic + wake.log_offset) if line.monotonic is not None else line
        for line in logs.read_log(wake.log, logs.KERNEL)
    )


def limits(settings: config.Settings) -> Limits:
    """The budgets of the configuration."""
    return Limits(settings.budget_add, settings.budget_remove)

"""One watch from the command line's words: the parts put together, and an exit code in the end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TextIO

from .. import config, opened, probe
from ..diagnose import diagnose
from ..errors import Exit, HotplugError
from ..look import Look
from ..model import Change, ChangeKind, Device, Finding, State
from ..readers import kernel, logs
from ..rules import load
from .checks import Checks, NoChecks
from .ending import Ending, Subject
from .live import LiveSource
from .loop import BATCH_S, Watch, limits
from .outlets import Outlets, Wanted
from .runs import Recording, replay
from .scene import Scene


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line asked for; times in seconds."""

    subject: Subject = field(default_factory=Subject)
    until: State | None = None
    count: int | None = None
    timeout_s: float | None = None
    for_s: float | None = None
    source: str = "auto"
    record: str | None = None
    replay: str | None = None
    batch_s: float | None = None
    outlets: Wanted = field(default_factory=Wanted)


def follow(look: Callable[[], Look], asked: Asked, settings: config.Settings, tell: Callable[[Change], None],
           warn: Callable[[str], None]) -> Exit:
    """Follow the machine, or a recorded run, until it ends; `tell` gets each Change that concerns the subject."""
    ending = Ending(asked.subject, asked.until, asked.count)
    with closing(opened_watch(asked, settings, warn, look)) as found, closing(
        Outlets(asked.outlets, settings, found.watch.scene.host, tell, warn)
    ) as outlets:
        scene = found.watch.scene
        for change in found.watch.changes():
            narrowed = _narrowed(change, asked.subject)
            if narrowed is None:
                continue
            paths = {slot.name: slot.path for slot in scene.slots if isinstance(slot.path, str)}
            outlets.hand_over(narrowed, paths, tuple(scene.devices.values()))
            code = ending.after(narrowed)
            if code is not None:
                return code
    if asked.timeout_s is not None and (asked.for_s is None or asked.timeout_s <= asked.for_s):
        raise HotplugError(
            "the time is up", why=f"it did not come to {_wanted(asked)} within {asked.timeout_s:g} s",
            hint="hotplugctl diagnose", exit=Exit.TIMEOUT,
        )
    return Exit.OK


def _wanted(asked: Asked) -> str:
    return asked.until.value if asked.until is not None else "an end"


def _narrowed(change: Change, subject: Subject) -> Change | None:
    """The change as far as it concerns the subject."""
    if change.kind in (ChangeKind.SNAPSHOT, ChangeKind.RESYNC):
        standing = subject.narrowed(change.standing or ())
        return replace(change, standing=standing, devices=len(standing))
    return change if subject.concerns(change) else None


@dataclass
class Opened:
    """A watch that can be followed, and what has to be closed after it."""

    watch: Watch
    source: LiveSource | None = None
    checks: Checks | None = None
    recording: Recording | None = None

    def look(self) -> tuple[Device, ...]:
        """The devices, read afresh; of a replay, as they were at the moment that was played last."""
        scene = self.watch.scene
        fresh = Scene(scene.host, scene.settings, scene.profiles)
        fresh.everything()
        if fresh.seen is not None and scene.seen is not None:
            fresh.seen.checked.update(scene.seen.checked)
            fresh.everything()
        return tuple(fresh.devices.values())

    def stop(self) -> None:
        """End the watch at its next wake-up, which is now. From any thread."""
        if self.source is not None:
            self.source.stop()

    def close(self) -> None:
        """Release everything."""
        if self.recording is not None:
            self.recording.finish()
            self.recording.file.close()
        if self.checks is not None:
            self.checks.close()
        if self.source is not None:
            self.source.close()


def opened_watch(
    asked: Asked, settings: config.Settings, warn: Callable[[str], None], look: Callable[[], Look] | None = None
) -> Opened:
    """Open what is watched: this machine (as `look` sees it), or a recorded run.

    Raises HotplugError when it cannot be listened to.
    """
    if asked.replay is not None:
        played = replay(asked.replay)
        scene = Scene(played.host, settings, played.profiles)
        return Opened(Watch(scene, played, NoChecks(), limits(settings), root_cause, boot=played.boot))
    seen = look() if look is not None else opened.look_at("/", settings, redact=False)
    source = LiveSource(seen.host, seen.profiles, asked.source)
    for gap in source.gaps:
        warn(gap)
    checks = Checks(source.checked)
    scene = Scene(seen.host, settings, seen.profiles)
    boot = kernel.boot_id(seen.host)
    ends = [after for after in (asked.timeout_s, asked.for_s) if after is not None and after != float("inf")]
    found = Opened(Watch(
        scene, source, checks, limits(settings), root_cause, boot=boot if isinstance(boot, str) else "",
        deadline=source.now() + min(ends) if ends else None,
        batch_s=BATCH_S if asked.batch_s is None else asked.batch_s,
    ), source, checks)
    if asked.record is not None:
        found.recording = Recording(source, scene, _new_file(asked.record))
        found.recording.header(found.watch.boot)
        found.watch.source = found.recording
    return found


def _new_file(path: str) -> TextIO:
    try:
        return open(path, "x", encoding="utf-8")
    except OSError as error:
        raise HotplugError(
            f"cannot record to {path}", why=str(error.strerror), hint="name a new file", exit=Exit.USAGE
        ) from error


def root_cause(scene: Scene, device: Device) -> Finding | None:
    """The diagnosis of one device, by the same rules as `diagnose`."""
    seen = scene.seen
    if seen is None:
        return None
    log = logs.kernel(scene.host)
    machine = replace(probe.machine(seen, close=True), logs=log if isinstance(log, tuple) else ())
    name = device.address or f"slot:{device.slot}"
    rules = load.rules(config.authored("rules.d"))
    return diagnose(machine, rules, load.taxonomy(), scene.profiles, named=(name,), live=True).root_cause


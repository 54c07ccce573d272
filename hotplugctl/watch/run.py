"""One watch from the command line's words: the parts put together, and an exit code in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TextIO

from .. import config, probe
from ..diagnose import diagnose
from ..errors import Exit, HotplugError
from ..look import Look
from ..model import Change, ChangeKind, Device, Finding, State
from ..readers import kernel, logs
from ..rules import load
from .checks import Checks, NoChecks
from .ending import Ending, Subject
from .live import LiveSource
from .loop import Watch, limits
from .runs import Recording, replay
from .scene import Scene


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line asked for; times in seconds."""

    subject: Subject
    until: State | None = None
    count: int | None = None
    timeout_s: float | None = None
    for_s: float | None = None
    source: str = "auto"
    record: str | None = None
    replay: str | None = None


def follow(look: Callable[[], Look], asked: Asked, settings: config.Settings, tell: Callable[[Change], None],
           warn: Callable[[str], None]) -> Exit:
    """Follow the machine, or a recorded run, until it ends; `tell` gets each Change that concerns the subject."""
    ending = Ending(asked.subject, asked.until, asked.count)
    with _watching(look, asked, settings, warn) as watch:
        for change in watch.changes():
            narrowed = _narrowed(change, asked.subject)
            if narrowed is None:
                continue
            tell(narrowed)
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


@contextmanager
def _watching(
    look: Callable[[], Look], asked: Asked, settings: config.Settings, warn: Callable[[str], None]
) -> Iterator[Watch]:
    if asked.replay is not None:
        played = replay(asked.replay)
        yield Watch(Scene(played.host, settings, played.profiles), played, NoChecks(), limits(settings), root_cause,
                    boot=played.boot)
        return
    seen = look()
    source = LiveSource(seen.host, seen.profiles, asked.source)
    for gap in source.gaps:
        warn(gap)
    checks = Checks(source.checked)
    scene = Scene(seen.host, settings, seen.profiles)
    boot = kernel.boot_id(seen.host)
    ends = [after for after in (asked.timeout_s, asked.for_s) if after is not None and after != float("inf")]
    watch = Watch(
        scene, source, checks, limits(settings), root_cause, boot=boot if isinstance(boot, str) else "",
        deadline=source.now() + min(ends) if ends else None,
    )
    try:
        if asked.record is None:
            yield watch
        else:
            with _new_file(asked.record) as file:
                recording = Recording(source, scene, file)
                recording.header(watch.boot)
                watch.source = recording
                try:
                    yield watch
                finally:
                    recording.finish()
    finally:
        checks.close()
        source.close()


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


"""A case for `diagnose`: the evidence of a machine or of files brought together, and the diagnosis made of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from . import config, select
from .diagnose import KERNEL_LOGS, Explanation, Scene, diagnose, explain, scene
from .errors import Exit, HotplugError
from .host.live import Live
from .model import Diagnosis, Machine, Profile, RootCause, Rule, Severity, iso_time
from .options import Common, duration
from .readers import archives
from .rules import load
from .rules.hearing import seconds

if TYPE_CHECKING:
    from .look import Look
    from .readers.scan import Sieve

# Seconds. A removal should take one (budgets.remove); what has not moved on after three waits for something.
PATIENCE = 3.0


@dataclass(frozen=True)
class Case:
    """What was looked at. `scanned` says how much of each large log was needed; the others as for `diagnose`."""

    machine: Machine
    rules: Sequence[Rule]
    profiles: Sequence[Profile]
    named: tuple[str, ...]
    live: bool
    scanned: tuple[str, ...] = ()

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """What it means."""
        return diagnose(
            self.machine, self.rules, load.taxonomy(), self.profiles, named=self.named, live=self.live)

    @property
    def scene(self) -> Scene:
        """What the rules are judged on."""
        return scene(self.machine, self.rules, self.profiles, named=self.named, live=self.live)

    def explained(self, name: str) -> Explanation:
        """How the rule or the root cause of that name comes out here."""
        return explain(name, self.rules, load.taxonomy(), self.scene)


def severity(text: str) -> Severity:
    """The severity of --fail-on. Raises HotplugError(USAGE)."""
    try:
        return Severity(text)
    except ValueError:
        words = ", ".join(one.value for one in Severity)
        raise HotplugError(
            f"--fail-on {text!r} is no severity", why=f"it is one of {words}", hint="--fail-on error", exit=Exit.USAGE
        ) from None


def exit_code(found: Diagnosis, fail_on: Severity) -> Exit:
    """FAULT from `fail_on` on, UNKNOWN where it cannot be told, else OK."""
    if found.verdict == "unknown":
        return Exit.UNKNOWN
    return Exit.FAULT if any(one.severity.at_least(fail_on) for one in found.findings) else Exit.OK


def from_machine(seen: Look, named: Sequence[str], filters: select.Filters, since: str | None) -> Case:
    """Diagnose a machine: this one, or a captured one."""
    machine = _whole(seen, since)
    chosen = _chosen(machine, named, filters)
    if seen.host.live:
        from . import health

        machine = health.shaken(seen, machine, chosen.devices)
    machine = _recent(machine, since)
    rules = load.rules(config.authored("rules.d"))
    wanted = _names(chosen) if named or filters != select.Filters() else ()
    return Case(machine, rules, seen.profiles, wanted, live=True)


def from_files(
    paths: Sequence[str], common: Common, named: Sequence[str], filters: select.Filters, since: str | None
) -> Case:
    """Diagnose what people sent; all files together are one case."""
    settings = config.settings(common.config)
    rules = load.rules(config.authored("rules.d"))
    found = archives.evidence([_file(path) for path in paths], lambda size: _sieve(rules, size))
    profiles: tuple[Profile, ...] = load.profiles(config.authored("vendors.d"))
    machine = Machine(
        host=found.hosts[0] if found.hosts else "unknown", devices=found.devices, ports=found.ports,
        logs=found.logs, gaps=found.gaps, taken_at=iso_time(Live().now()),
    )
    if found.dumps:
        from . import decoded

        machine = decoded.completed(machine, found.dumps, settings, profiles)
    looks = [_look_at(path, settings, redact=common.redact) for path in found.bundles]
    machine = _redacted(machine, found.hosts, looks) if common.redact else machine
    for seen in looks:
        profiles = tuple(seen.profiles)
        machine = _joined(_whole(seen, since), machine)
    select.check_filters(filters, {profile.id: profile.name for profile in profiles})
    machine = _recent(machine, since)
    wanted = _names(_chosen(machine, named, filters)) if named or filters != select.Filters() else ()
    case = Case(machine, rules, profiles, wanted, live=bool(found.bundles), scanned=found.scanned)
    if wanted and not found.bundles:
        _spoken_of(case)
    return case


def _spoken_of(case: Case) -> None:
    """Raises HotplugError(UNKNOWN) where nothing in what was sent speaks of any device that was named."""
    seen = case.scene
    if any(place.named and (place.spoke >= 0 or place.probed or place.bridge or place.port or place.slot)
           for place in seen.places):
        return
    known = sorted({place.address for place in seen.places if place.address and not place.named})
    raise HotplugError(
        f"{case.named[0]} is not in the evidence", why=f"it speaks of {', '.join(known[:6])}" if known else "",
        hint="hotplugctl diagnose --from FILE, without a device", exit=Exit.UNKNOWN,
    )


def _file(path: str) -> str:
    """Where a file that was named lies; `demo` is the captured machine that ships."""
    if path != "demo":
        return path
    from .host.opening import demo_path

    return demo_path()


def _sieve(rules: Sequence[Rule], size: int) -> Sieve | None:
    """What a large log is scanned for: all that the rules in force and the reasoning read of a line."""
    from .diagnose import needs
    from .readers import scan

    return scan.sieve(needs.patterns(rules), needs.FOLLOWED, size)


def _chosen(machine: Machine, named: Sequence[str], filters: select.Filters) -> select.Chosen:
    """What the person meant. Raises HotplugError(UNKNOWN) when filters leave nothing of it."""
    chosen = select.choose(machine, named, filters, absent_ok=True)
    if filters != select.Filters() and not (chosen.devices or chosen.slots or chosen.addresses):
        raise HotplugError(
            "nothing to diagnose", why="no accelerator here passes the filters", hint="hotplugctl list",
            exit=Exit.UNKNOWN,
        )
    return chosen


def _look_at(path: str, settings: config.Settings, *, redact: bool) -> Look:
    from . import opened

    return opened.look_at(path, settings, redact=redact)


def _redacted(machine: Machine, hosts: Sequence[str], looks: Sequence[Look]) -> Machine:
    """What came as text, with the aliases of the bundle beside it.

    Without one they are good for this run: a file brings no machine id to derive them from.
    """
    from .host import redact
    from .host.redacted import Redacted

    known = next((seen.host.redactor for seen in looks if isinstance(seen.host, Redacted)), None)
    redactor = known or redact.redactor_for_texts((machine.host, *hosts))
    devices = tuple(
        replace(d, serial=redactor.attribute("serial_number", d.serial)) if isinstance(d.serial, str) else d
        for d in machine.devices
    )
    logs = [replace(line, text=redactor.text(line.text), source=redactor.text(line.source)) for line in machine.logs]
    return replace(
        machine, host=redactor.host(machine.host), devices=devices,
        # Once more, for what a later line gave away.
        logs=tuple(
            replace(line, text=redactor.again(line.text), source=redactor.again(line.source)) for line in logs),
        gaps=tuple(
            replace(gap, path=redactor.again(redactor.text(gap.path)), reason=redactor.again(redactor.text(gap.reason)))
            for gap in machine.gaps),
    )


def root_causes() -> tuple[RootCause, ...]:
    """All root causes that a diagnosis may end in, but for "none"."""
    return tuple(cause for cause in load.taxonomy().values() if cause.id != "none")


def is_rule(name: str) -> bool:
    """Is it a rule's name, rather than a root cause's?"""
    return any(rule.id == name.casefold() for rule in load.rules(config.authored("rules.d")))


def explanation(name: str) -> Explanation:
    """What a rule or a root cause means and how it is told."""
    return explain(name, load.rules(config.authored("rules.d")), load.taxonomy())


def _whole(seen: Look, since: str | None) -> Machine:
    """All that can be seen of a machine, its logs included."""
    from . import beside, probe

    seen.patience = PATIENCE
    machine = probe.machine(seen, close=True)
    log = beside.kernel_lines(seen)
    lines, gaps = beside.lines_of(seen, since)
    return replace(
        machine, logs=(*(log if isinstance(log, tuple) else ()), *lines),
        gaps=(*machine.gaps, *beside.gap_of(log), *gaps),
    )


def _joined(one: Machine, more: Machine) -> Machine:
    """A bundle with what came beside it; its host and time are the case's."""
    return replace(
        one, devices=(*one.devices, *more.devices), slots=(*one.slots, *more.slots), ports=(*one.ports, *more.ports),
        logs=(*one.logs, *more.logs), gaps=(*one.gaps, *more.gaps),
    )


def _names(chosen: select.Chosen) -> tuple[str, ...]:
    """The devices as `diagnose` knows them: by address, or by slot where the bus shows none."""
    devices = [device.address or f"slot:{device.slot}" for device in chosen.devices]
    return (*devices, *(f"slot:{name}" for name in chosen.slots), *chosen.addresses)


def _recent(machine: Machine, since: str | None) -> Machine:
    """With the lines of the last `since` only, and those without a time.

    A machine that was looked at knows how long it has been up; every other log is counted back from its newest line.
    """
    if since is None:
        return machine
    span, at = duration(since, "--since"), [seconds(line) for line in machine.logs]
    clocks = [(line.source, line.monotonic is None) for line in machine.logs]
    newest: dict[tuple[str, bool], float] = {}
    for clock, moment in zip(clocks, at, strict=True):
        newest[clock] = max(moment if moment is not None else -math.inf, newest.get(clock, -math.inf))
    if isinstance(machine.uptime, float):
        newest.update({(source, False): machine.uptime for source in KERNEL_LOGS})
    return replace(machine, logs=tuple(
        line for line, clock, moment in zip(machine.logs, clocks, at, strict=True)
        if moment is None or moment >= newest[clock] - span
    ))

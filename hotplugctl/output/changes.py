"""A Change as one line for people: when, where, what, and why."""

from __future__ import annotations

from ..model import Budget, Change, ChangeKind, Device, Severity, State
from .tables import safe

# How a line is coloured at a terminal; the word itself always says it too.
MARKS: dict[ChangeKind, State | Severity] = {
    ChangeKind.READY: State.READY, ChangeKind.RECOVERED: State.READY, ChangeKind.FAILED: State.FAILED,
    ChangeKind.SURPRISE_REMOVED: State.FAILED, ChangeKind.LATE: Severity.WARNING, ChangeKind.DEGRADED: Severity.WARNING,
    ChangeKind.FLAPPING: Severity.WARNING, ChangeKind.RESYNC: Severity.WARNING, ChangeKind.ERROR: Severity.ERROR,
    ChangeKind.DRAINING: State.DRAINING, ChangeKind.DRAINED: State.DRAINED,
}


def line(change: Change) -> str:
    """One line, without its end; safe for a terminal whatever the device says."""
    if change.kind is ChangeKind.SNAPSHOT:
        standing = ", ".join(f"{_where(d)} {d.state.value}" for d in change.standing or ())
        said = f"watching {change.devices} device{'' if change.devices == 1 else 's'}"
        return safe(f"{_clock(change)}  {said}" + (f": {standing}" if standing else ""))
    if change.kind is ChangeKind.RESYNC:
        lost = f"{change.lost} events were lost" if change.lost else "events may have been lost"
        return safe(f"{_clock(change)}  resync: {lost}; everything was looked at again")
    words = [_clock(change), _where(change.device) if change.device else str(change.address or ""), change.kind.value]
    return safe("  ".join([*words, "; ".join(_details(change))]).rstrip())


def _clock(change: Change) -> str:
    """The time of day, UTC, to the millisecond."""
    return change.time[11:23] or "--:--:--.---"


def _where(device: Device) -> str:
    slot = f"slot {device.slot}" if isinstance(device.slot, str) else ""
    return " ".join(part for part in (slot, device.address or "") if part)


def _details(change: Change) -> list[str]:
    device = change.device
    parts = []
    if change.kind in (ChangeKind.ADDED, ChangeKind.REPLACED) and device is not None:
        name = device.model if device.model is not None else device.vendor
        ids = f"{device.vendor_id}:{device.device_id}" if isinstance(device.vendor_id, str) else ""
        parts.append(f"{name if isinstance(name, str) else ''} {ids}".strip())
        parts = [part for part in parts if part]
    if change.replaces:
        before = change.replaces.get("serial") or change.replaces.get("model") or change.replaces.get("device_id")
        parts.append(f"replaces {before}")
    if change.kind in (ChangeKind.PROGRESS, ChangeKind.DEGRADED) and change.after is not None:
        parts.append(change.after.value)
    if change.expected is False and change.kind is ChangeKind.REMOVED:
        parts.append("not expected")
    if change.deadline_s is not None:
        parts.append(f"{change.deadline_s:.1f} s left")
    if change.kind is ChangeKind.ADDED and device is not None and device.address is None:
        return [*parts, "a card is seated, and not on the bus yet"]
    parts += change.because
    if change.missing and change.missing not in change.because and change.kind not in (
        ChangeKind.REMOVED, ChangeKind.SURPRISE_REMOVED, ChangeKind.FAILED
    ):
        parts.append(change.missing)
    if change.budget is not None:
        parts.append(_budget(change.budget))
    if change.diagnosis is not None:
        parts.append(f"{change.diagnosis.id}: {change.diagnosis.action}")
    return parts


def _budget(budget: Budget) -> str:
    if budget.met is False and budget.took_s <= budget.limit_s:
        return f"after {budget.took_s:.2f} s"      # it failed before its time was up
    verdict = {True: "within", False: "over", None: "of"}[budget.met]
    return f"{budget.took_s:.2f} s, {verdict} {budget.limit_s:g} s"

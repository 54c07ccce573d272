"""What is worth a look about a device that stands well: narrow links, errors. Pure.

A note never changes a standing; `diagnose` has the rules that make a finding of it.
"""

from __future__ import annotations

from collections.abc import Callable

from .model import Device, Errors, Link, Note, Severity


def notes(device: Device) -> tuple[Note, ...]:
    """The notes of a device, worst first."""
    found = [note for ask in _ASKS for note in [ask(device)] if note is not None]
    return tuple(sorted(found, key=lambda note: -note.severity.weight))


def _narrow(device: Device) -> Note | None:
    link = device.link
    if not isinstance(link, Link) or not isinstance(link.width, int) or not isinstance(link.limit_width, int):
        return None
    if link.width >= link.limit_width:
        return None
    return Note(Severity.WARNING, "link-narrow", f"link runs x{link.width}, card and port can do x{link.limit_width}")


def _slow(device: Device) -> Note | None:
    link = device.link
    if not isinstance(link, Link) or not isinstance(link.speed_gts, float):
        return None
    if not isinstance(link.limit_speed_gts, float) or link.speed_gts >= link.limit_speed_gts:
        return None
    # Many accelerators lower the speed while idle and raise it under load, so alone it is no fault.
    text = f"link runs {link.speed_gts:g} GT/s, card and port can do {link.limit_speed_gts:g} (normal while idle)"
    return Note(Severity.INFO, "link-slow", text)


def _errors(kind: str, severity: Severity) -> Callable[[Device], Note | None]:
    def ask(device: Device) -> Note | None:
        count = getattr(device.errors, kind) if isinstance(device.errors, Errors) else None
        if not isinstance(count, int) or count == 0:
            return None
        return Note(severity, f"aer-{kind}", f"{count} {kind} PCIe error{'s' if count > 1 else ''} since it came up")

    return ask


_ASKS: tuple[Callable[[Device], Note | None], ...] = (
    _errors("fatal", Severity.ERROR),
    _errors("nonfatal", Severity.WARNING),
    _narrow,
    _slow,
    _errors("correctable", Severity.INFO),
)

"""Two accounts of one device or port -> one: what the first does not tell, the second may. Pure."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from ..model import State, Unknown

T = TypeVar("T")
# What a listing says of itself rather than of the device.
_OWN = frozenset(("sources", "sure", "rung", "missing", "held", "notes", "labels"))


def filled(one: T, other: T) -> T:
    """The first with each field that it could not tell taken from the second; dead is dead whoever saw it."""
    changes: dict[str, Any] = {}
    for field in fields(one):  # type: ignore[arg-type]
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if field.name in _OWN or isinstance(theirs, Unknown):
            continue
        if isinstance(mine, Unknown):
            changes[field.name] = theirs
        elif is_dataclass(mine) and type(mine) is type(theirs) and not isinstance(mine, type):
            changes[field.name] = filled(mine, theirs)
    if getattr(other, "state", None) is State.FAILED:
        changes |= {"state": State.FAILED, "error": getattr(other, "error", None)}
    return replace(one, **changes) if changes else one  # type: ignore[type-var]

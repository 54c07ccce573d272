"""Small pictures for ok, fault and unknown: a shape for each, so that colour is not the only sign. Pure."""

from __future__ import annotations

from .markup import Html, tag

_SHAPES = {
    "ok": ("M3.2 8.4L6.6 11.8L13 4.6", "ok"),
    "fault": ("M4 4L12 12M12 4L4 12", "fault"),
    "unknown": ("M5.4 6a2.6 2.6 0 1 1 3.7 2.4c-.8.4-1.1.8-1.1 1.6M8 12.6v.2", "unknown"),
}
_SAME = {"healthy": "ok"}


def sign(state: str, size: int = 16) -> Html:
    """The picture of a state; its word stands beside it, so that it is no news to those who cannot see it."""
    name = _SAME.get(state, state if state in _SHAPES else "unknown")
    return tag("svg", tag("path", d=_SHAPES[name][0]), class_=f"sign {name}", viewBox="0 0 16 16", width=size,
               height=size, aria_hidden="true")

"""Markup as values: whatever is not markup already is escaped when it is put in. Pure."""

from __future__ import annotations

import html

from ..diagnose.excerpt import excerpt
from .tables import safe


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, *inside: object, **attributes: object) -> Html:
    """An element; `class_` and `stroke_width` become `class` and `stroke-width`, None is left out."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"' for key, value in attributes.items()
        if value is not None)
    return Html(f"<{name}{said}>{join(*inside)}</{name}>")


def join(*parts: object) -> Html:
    """The parts one after the other; None is nothing."""
    return Html("".join(part if isinstance(part, Html) else escaped(part) for part in parts if part is not None))


def escaped(value: object) -> Html:
    """Text as text: control characters, escapes and direction overrides visible, markup without meaning."""
    return Html(html.escape(safe(str(value)), quote=True))


def code(value: object, most: int | None = None) -> Html:
    """Text of a machine or log, read from left to right whatever is in it."""
    text = str(value)
    return tag("code", text if most is None else excerpt(text, most), dir="ltr")


def lasted(seconds: float) -> str:
    """A time span as a person says it: `12.5 ms`, `1.82 s`, `12 min 3 s`, `2 d 3 h`."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms" if seconds >= 1e-6 else "0 ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    for unit, size, next_unit, next_size in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // next_size
            return f"{whole // size:,} {unit}" + (f" {rest} {next_unit}" if rest else "")
    return f"{whole} s"

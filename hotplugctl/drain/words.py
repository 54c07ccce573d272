"""The commands a drain tells people to type. Pure."""

from __future__ import annotations

import shlex

from .site import Site, Wish

GOALS = {"remove": "--remove", "power": "--power-off"}


def names(site: Site) -> str:
    """The DEVICEs, as they are typed."""
    return " ".join(shlex.quote(card.name) for card in site.cards)


def undo(site: Site) -> str:
    """What takes it back."""
    return f"hotplugctl drain {names(site)} --undo"


def again(site: Site, wish: Wish, more: str = "") -> str:
    """What goes on with it: the same command."""
    parts = ["hotplugctl drain", names(site)]
    if wish.replace:
        parts.append("--replace")
    elif wish.goal in GOALS:
        parts.append(GOALS[wish.goal])
    if wish.scope != "device":
        parts.append(f"--scope {wish.scope}")
    if wish.scheduler != "auto":
        parts.append(f"--scheduler {wish.scheduler}")
    if wish.group:
        parts.append("--group")
    if wish.stop_holders:
        parts.append("--stop-holders")
    if wish.timeout_s is not None:
        parts.append(f"--timeout {seconds(wish.timeout_s)}")
    if more:
        parts.append(more)
    return " ".join(parts)


def seconds(value: float) -> str:
    """A duration as it is typed."""
    if value == float("inf"):
        return "infinity"
    for size, unit in ((3600, "h"), (60, "m")):
        if value >= size and value % size == 0:
            return f"{value / size:g}{unit}"
    return f"{value:.15g}s" if value >= 1 or not value else f"{value * 1000:.0f}ms"

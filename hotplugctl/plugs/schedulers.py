"""Who places work on cards: found out, asked, and told to leave a card alone. One file a scheduler, imported when used.

Every call is bounded: a scheduler that does not answer is an Unknown in its Placement, with a blocker that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol

from ..host.live import Live
from ..model import Accelerator, Placement, Unknown, Work

Remembered = Mapping[str, Any]      # JSON; what a scheduler needs to recognise and to take back what we told it
SCOPES = ("device", "node")


class Scheduler(Protocol):
    """One scheduler on this machine."""

    name: str

    def placement(self, card: Accelerator, scope: str, ours: Remembered) -> Placement:
        """What it knows of the card; changes nothing, raises nothing. `ours` is what was kept of an earlier cordon."""

    def cordon(
        self, card: Accelerator, scope: str, ours: Remembered, keep: Callable[[Remembered], None], deadline: float
    ) -> None:
        """Make new work avoid the card; what runs there stays. Takes up where an interrupted one ended.

        `keep` is called before each thing that changes the scheduler, with all that `uncordon` will need; it is on the
        disk when it returns. Returns within `deadline` seconds (plus one call). Raises HotplugError: FAILED, or DENIED
        when the scheduler does not let this user do it.
        """

    def uncordon(self, ours: Remembered, deadline: float) -> None:
        """Take back what `cordon` did, and nothing that others did meanwhile. What is gone already is done.

        Raises HotplugError: FAILED when the scheduler does not answer or refuses, DENIED as above.
        """

    def stop(self, work: Work, grace_s: float) -> str | None:
        """Ask it to end this work within `grace_s` seconds; returns at once. None = it will, else why it refuses.

        Raises HotplugError(DENIED) as above.
        """

    def foresee(self, card: Accelerator, deadline: float) -> str | Unknown | None:
        """What closing the card would mean, in the scheduler's own words, without closing it; None = it cannot tell."""


# name -> module:function(host) -> Scheduler | None; None = this machine does not belong to it. In the order of `auto`.
SCHEDULERS: Mapping[str, str] = {
    "slurm": "hotplugctl.plugs.slurm:here",
    "kubernetes": "hotplugctl.plugs.kubernetes:here",
}


def found(wanted: str, host: Live) -> tuple[Scheduler, ...]:
    """The schedulers of this machine: all that are here with `auto`, none with `none`, else the named one.

    Raises HotplugError(USAGE) when the named one is not here.
    """
    from ..errors import Exit, HotplugError

    if wanted == "none":
        return ()
    names = tuple(SCHEDULERS) if wanted == "auto" else (wanted,)
    schedulers = []
    for name in names:
        module, _, function = SCHEDULERS[name].partition(":")
        here: Scheduler | None = getattr(import_module(module), function)(host)
        if here is not None:
            schedulers.append(here)
        elif wanted != "auto":
            raise HotplugError(
                f"--scheduler {name}: this machine has none", why="its commands or its configuration are not here",
                hint="--scheduler none", exit=Exit.USAGE,
            )
    return tuple(schedulers)

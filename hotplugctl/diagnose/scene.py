"""The evidence made ready to be judged: lines in order, the tree of devices, and what there is to judge. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..model import LogLine, Machine, Profile, Rule
from ..rules.hearing import Hit, hear
from ..rules.judge import Subject
from . import history, instances, tree
from .counts import surroundings_of
from .order import in_order
from .subjects import Place, gather, log_gap, subject_of

KERNEL_LOG = "/dev/kmsg"     # the source of lines that a probed machine's own kernel wrote (readers/logs.py)
KERNEL_LOGS = frozenset((KERNEL_LOG, "journalctl -k"))


@dataclass(frozen=True, slots=True)
class Scene:
    """What rules are judged on. `places` are all there are; `judged` those of them that were asked about."""

    lines: tuple[LogLine, ...]
    tree: tree.Tree
    heard: Mapping[str, Sequence[Hit]]
    places: Sequence[Place]
    judged: Sequence[tuple[Place, Subject]]

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """The places that were asked about, as the judge sees them."""
        return tuple(subject for _, subject in self.judged)


def scene(
    machine: Machine, rules: Sequence[Rule], profiles: Sequence[Profile], *, named: Sequence[str] = (), live: bool
) -> Scene:
    """The scene of a machine, or of what was sent of one; `named` and `live` as in `diagnose`."""
    lines = instances.settle(machine.logs if live else in_order(machine.logs))
    grown = tree.grow(machine.devices, machine.ports, machine.slots, lines)
    if live:
        lines = history.current(lines, machine, grown, named, KERNEL_LOGS)
        grown = tree.grow(machine.devices, machine.ports, machine.slots, lines)     # as it is without what is gone
    heard = hear(rules, lines)
    places = gather(machine, lines, heard, grown, profiles, named=named, live=live)
    around, silence = surroundings_of(machine, lines), log_gap(machine)
    return Scene(lines, grown, heard, places, tuple(
        (place, subject_of(place, around, silence)) for place in places
        if (place.named or not place.foreign) and _wanted(place, named)
    ))


def _wanted(place: Place, named: Sequence[str]) -> bool:
    """Was the place named, or nothing at all? Lines about nobody may mean the named one."""
    return not named or place.named or place.address is None

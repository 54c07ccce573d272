"""When a watch ends, and with which exit code: --until, --count. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..errors import Exit, HotplugError
from ..model import LADDER, Change, ChangeKind, Device, State
from ..select import Filters, named_by

GONE = (State.ABSENT, State.REMOVED)     # both mean that no card is there


def state(word: str) -> State:
    """The state of --until. Raises HotplugError(USAGE)."""
    try:
        return State(word)
    except ValueError:
        words = ", ".join(one.value for one in State)
        raise HotplugError(
            f"--until {word!r} is no state", why=f"it is one of {words}", hint="--until ready", exit=Exit.USAGE
        ) from None


@dataclass
class Subject:
    """What a person watches: the devices of these words, or all; and the filters."""

    words: Sequence[str] = ()
    filters: Filters = field(default_factory=Filters)

    def concerns(self, change: Change) -> bool:
        """Is the change about one of them? A resync is everybody's."""
        return change.device is None or self._meant(change.device)

    def narrowed(self, devices: Sequence[Device]) -> tuple[Device, ...]:
        """Those of the devices that are meant."""
        return tuple(device for device in devices if self._meant(device))

    def _meant(self, device: Device) -> bool:
        named = not self.words or "all" in self.words or any(named_by(word)(device) for word in self.words)
        return named and self.filters.admits(device)


@dataclass
class Ending:
    """Fed with every Change; says when the watch is over, and how."""

    subject: Subject
    until: State | None = None
    count: int | None = None
    _now: dict[str, State] = field(default_factory=dict)       # word -> state of the device it means
    _failed_before: set[str | None] = field(default_factory=set)
    _counted: int = 0

    def after(self, change: Change) -> Exit | None:
        """The exit code when this Change ends the watch; None = go on."""
        named = [word for word in self.subject.words if word != "all"]
        if change.kind in (ChangeKind.SNAPSHOT, ChangeKind.RESYNC):
            self._stand(change.standing or (), named)
            if change.kind is ChangeKind.SNAPSHOT:
                self._failed_before = {
                    device.address for device in change.standing or () if device.state is State.FAILED}
        else:
            self._counted += 1
            if change.device is not None:
                for word in named:
                    if named_by(word)(change.device):
                        self._now[word] = change.device.state
        if self._met(change, named):
            return Exit.OK
        if self.until is not None and change.kind is ChangeKind.FAILED and (
            named or change.address not in self._failed_before
        ):
            return Exit.FAULT
        return Exit.OK if self.count is not None and self._counted >= self.count else None

    def _stand(self, devices: Sequence[Device], named: Sequence[str]) -> None:
        for word in named:
            found = [device for device in devices if named_by(word)(device)]
            self._now[word] = found[0].state if found else State.ABSENT

    def _met(self, change: Change, named: Sequence[str]) -> bool:
        if self.until is None:
            return False
        if named:
            return all(self._at(self._now.get(word, State.ABSENT)) for word in named)
        return change.kind is not ChangeKind.SNAPSHOT and change.after is not None and self._at(change.after)

    def _at(self, now: State) -> bool:
        """At the state asked for, or on a higher rung; what is beside the ladder matches only itself."""
        wanted = self.until
        if wanted in LADDER:
            return now in LADDER and LADDER.index(now) >= LADDER.index(wanted)
        return now is wanted or (wanted in GONE and now in GONE)

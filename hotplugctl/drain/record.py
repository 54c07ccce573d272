"""What is remembered of a drain: one file a card's place, on the disk before anything is changed.

    /var/lib/hotplugctl/drain/<PCI path of the place>.json

It survives a reboot, because what a scheduler was told does; what was done in the kernel is void after one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .. import records
from ..host import Host
from ..model import Held, Kind, Maybe, Unknown

FOLDER = "/var/lib/hotplugctl/drain"
SCHEMA = "hotplugctl.drain/1"
OUTLIVE = ("cordon", "hook")     # steps that a reboot, or another card in the place, does not make void
GOALS = ("unbind", "remove", "power")      # how far a drain goes


@dataclass(frozen=True, slots=True)
class Taken:
    """A step that was begun. `before` is what it changed, as JSON; `done` once it was seen to have taken effect."""

    do: str
    target: str
    at: str
    before: Any = None
    done: bool = False
    took_s: float = 0.0
    said: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One drain. `key` is the PCI path of the place, `card` the identity of what was in it, `goal` unbind|remove|power.

    `told` holds, by scheduler, what taking its cordon back needs; `announced` is the uuid of the announcement.
    `replace`: another card is to take its place, and `pulled`: this one was seen to go.
    """

    key: str
    slot: str | None
    address: str | None
    addresses: tuple[str, ...]
    card: Mapping[str, Any]
    boot_id: str | None
    since: str
    by: str
    reason: str
    goal: str
    scope: str
    announced: str
    rung: str
    taken: tuple[Taken, ...] = ()
    told: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    pulled: bool = False
    replace: bool = False

    @property
    def held(self) -> Held:
        """As devices show it."""
        return Held(self.by, self.since, self.reason, self.key)

    @property
    def unbound(self) -> bool:
        """Has every unbind that was begun returned?"""
        return all(taken.done for taken in self.taken if taken.do == "unbind")

    def has(self, do: str, target: str | None = None) -> bool:
        """Was this step done?"""
        return any(t.do == do and target in (None, t.target) and t.done for t in self.taken)

    def begun(self, step: Taken) -> Record:
        """With a step that is about to act; one that was begun before keeps what it changed then."""
        earlier = self.find(step.do, step.target)
        if earlier is not None:
            step = replace(step, before=earlier.before)
        return replace(self, taken=(*self._without(step.do, step.target), step))

    def ended(self, do: str, target: str, took_s: float, said: str | None = None) -> Record:
        """With that step seen to have taken effect."""
        return replace(self, taken=tuple(
            replace(t, done=True, took_s=round(took_s, 3), said=said) if (t.do, t.target) == (do, target) else t
            for t in self.taken
        ))

    def undone(self, do: str, target: str) -> Record:
        """Without that step: it was taken back."""
        return replace(self, taken=self._without(do, target))

    def find(self, do: str, target: str) -> Taken | None:
        """A step that was begun."""
        return next((t for t in self.taken if (t.do, t.target) == (do, target)), None)

    def only(self, *dos: str) -> Record:
        """With the steps of these kinds alone: what was done to a card is over when the card is."""
        return replace(self, taken=tuple(t for t in self.taken if t.do in dos))

    def without_card(self) -> Record:
        """With what the place and its schedulers still have to be given back."""
        return self.only("light", *OUTLIVE)

    def _without(self, do: str, target: str) -> tuple[Taken, ...]:
        return tuple(t for t in self.taken if (t.do, t.target) != (do, target))


def scheduler_of(word: str) -> str:
    """Whose a cordon is, by its step's target or by the key under which it was kept: both begin with the name."""
    return word.partition(":")[0]


def path(key: str) -> str:
    """The file of a record."""
    return f"{FOLDER}/{records.file_name(key)}.json"


def keep(record: Record, *, sync: bool = True) -> None:
    """On the disk when it returns. Raises HotplugError(DENIED) where it cannot be kept.

    `sync` False is for what the machine itself tells as well: that a step has ended.
    """
    records.save(path(record.key), {"schema": SCHEMA, **asdict(record)}, sync=sync)


def forget(record: Record) -> None:
    """The drain is over."""
    records.forget(path(record.key))


def everything(host: Host) -> Mapping[str, Record] | Unknown:
    """Every drain in progress, by key; a record that cannot be read is one of an unknown drain, not of none."""
    names = host.names(FOLDER)
    if names is None:
        return {}
    if isinstance(names, Unknown):
        return names
    found: dict[str, Record] = {}
    for name in names:
        if not name.endswith(".json") or name.startswith("."):
            continue
        key = name.removesuffix(".json").replace("+", "/")
        record = _parsed(key, host.text(f"{FOLDER}/{name}"))
        if record is not None:
            found[key] = record if isinstance(record, Record) else _damaged(key, record.why)
    return found


# What a field must be for anything to be done on its word; None is allowed where the type says so.
_TEXT, _MAYBE = (str,), (str, type(None))
_FIELDS: Mapping[str, tuple[type, ...]] = {
    "key": _TEXT, "slot": _MAYBE, "address": _MAYBE, "addresses": (list,), "card": (dict,), "boot_id": _MAYBE,
    "since": _TEXT, "by": _TEXT, "reason": _TEXT, "goal": _TEXT, "scope": _TEXT, "announced": _TEXT, "rung": _TEXT,
    "taken": (list,), "told": (dict,), "pulled": (bool,), "replace": (bool,),
}
_STEP: Mapping[str, tuple[type, ...]] = {
    "do": _TEXT, "target": _TEXT, "at": _TEXT, "done": (bool,), "took_s": (int, float), "said": _MAYBE,
}


def _parsed(key: str, text: Maybe[str]) -> Maybe[Record]:
    if not isinstance(text, str):
        return text
    try:
        value = json.loads(text)
        if value.pop("schema") != SCHEMA:
            return Unknown("it is of another version of hotplugctl", Kind.IO)
        _check(value, _FIELDS)
        for step in value["taken"]:
            _check(step, _STEP)
        told = all(isinstance(one, dict) for one in value["told"].values())
        if value["key"] != key or value["goal"] not in GOALS or not told:
            raise ValueError("it says what it cannot be about")
        value["taken"] = tuple(Taken(**one) for one in value["taken"])
        value["addresses"] = tuple(str(address) for address in value["addresses"])
        return Record(**value)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return Unknown(f"it is damaged ({type(error).__name__}: {str(error)[:80]})", Kind.IO)


def _check(value: Mapping[str, Any], fields: Mapping[str, tuple[type, ...]]) -> None:
    for name, types in fields.items():
        if not isinstance(value[name], types):
            raise TypeError(f"{name} is a {type(value[name]).__name__}")


def _damaged(key: str, why: str) -> Record:
    """A hold nobody can read is still a hold: it is shown, and nothing is done on its word."""
    return Record(
        key=key, slot=None, address=None, addresses=(), card={}, boot_id=None, since="", by="hotplugctl",
        reason=f"the record cannot be read: {why}", goal="", scope="device", announced="", rung="",
    )

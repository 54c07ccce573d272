"""A rule's own examples: the situation each describes, and whether the rule comes out as its author says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from ..diagnose.counts import surroundings_of
from ..diagnose.instances import settle
from ..model import (
    Bar,
    Driver,
    Holder,
    Link,
    Machine,
    Match,
    Node,
    Port,
    Power,
    Probed,
    Profile,
    Rule,
    Slot,
    SlotControl,
    State,
    Trit,
)
from ..model.device import Dpc
from ..readers.logs import read_log
from .hearing import hear
from .judge import Subject, judge

_PARTS: Mapping[str, Any] = {"driver": Driver, "link": Link, "power": Power}
_LISTS: Mapping[str, Any] = {"bars": Bar, "nodes": Node, "holders": Holder}
_PORT_PARTS: Mapping[str, Any] = {"slot": SlotControl, "dpc": Dpc, "power": Power}
_FACTS = frozenset(field.name for field in fields(Probed)) - {"profile", "slot"}


def subject_of(example: Mapping[str, Any], rule: Rule, profiles: Sequence[Profile]) -> Subject:
    """The subject an example describes: facts by name, `log` as lines about it, all else unknown.

    Raises TypeError or ValueError for what no fact can be.
    """
    lines = settle(read_log("\n".join(example.get("log", ())), "example"))
    facts = {name: _fact(name, value) for key, value in example.items() if (name := _field(key)) in _FACTS}
    port = {key: _PORT_PARTS[key](**value) if key in _PORT_PARTS else value
            for key, value in example.get("port", {}).items()}
    slot = example.get("slot")
    return Subject(
        address=example.get("address"), device=Probed(**facts), port=Port(**port) if port else None,
        slot=Slot(**slot) if isinstance(slot, Mapping) else None, profile=_profile(example, profiles),
        named=example.get("named", False), bridge=example.get("bridge", False),
        enumerated=example.get("address") is not None, heard=hear([rule], lines),
        surroundings=surroundings_of(Machine(host=""), lines),
    )


def _field(key: str) -> str:
    return "class_" if key == "class" else key


def _fact(name: str, value: Any) -> Any:
    if name in _PARTS and isinstance(value, Mapping):
        return _PARTS[name](**value)
    if name in _LISTS and isinstance(value, list):
        return tuple(_LISTS[name](**one) for one in value)
    if name in ("state", "rung"):
        return State(value)
    return tuple(value) if isinstance(value, list) else value


def _profile(example: Mapping[str, Any], profiles: Sequence[Profile]) -> Profile | None:
    if "profile_id" in example:
        return next((profile for profile in profiles if profile.id == example["profile_id"]), None)
    if "profile" in example:
        own: dict[str, Any] = {key: tuple(value) for key, value in example["profile"].items()}
        return Profile(id="example", name="Example", match=Match(), **own)
    return None


def several(shown: Any) -> list[Any]:
    """The examples of one kind: an author may give one or a list."""
    return shown if isinstance(shown, list) else [shown]


def wrong(rule: Rule, profiles: Sequence[Profile]) -> Iterator[tuple[str, int, str]]:
    """(kind, which of them, what is wrong) of each example that does not come out as it says."""
    for kind, wanted in (("fires", True), ("quiet", False)):
        for number, example in enumerate(several(rule.examples[kind])):
            try:
                fires = judge(rule, subject_of(example, rule, profiles)).answer is Trit.YES
            except (TypeError, ValueError, AttributeError, KeyError) as error:
                yield kind, number, f"its {kind} example cannot be read: {error}"
                continue
            if fires is not wanted:
                yield kind, number, f"its {kind} example {'fires' if fires else 'does not fire'}"

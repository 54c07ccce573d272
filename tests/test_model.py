"""The values: three kinds of answer, and one word for one thing in Python, JSON and rules."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import get_args, get_origin, get_type_hints

import pytest

from hotplugctl import model
from hotplugctl.errors import Exit, HotplugError
from hotplugctl.model import (
    Device,
    Finding,
    Kind,
    Probed,
    Slot,
    Trit,
    Unknown,
    all_of,
    any_of,
    negate,
    parse_address,
)
from hotplugctl.output.documents import plain
from hotplugctl.rules import facts

# The contract's words, copied by hand: scripts rely on them.
DEVICE = [
    "profile", "address", "slot", "slot_printed", "vendor", "vendor_id", "device_id", "model", "class", "serial",
    "uuid",
    "driver", "link", "bars", "numa_node", "iommu_group", "nodes", "state", "rung", "held", "missing", "sure", "notes",
    "labels", "power", "errors", "first_seen", "error",
]
PROBED = [*DEVICE, "upstream", "capabilities", "iommu_peers", "holders", "runtime", "room", "sources"]
SLOT = [
    "name", "printed", "port", "path", "hotplug", "power", "presence", "latch", "link", "addresses", "room",
]
FINDING = [
    "id", "layer", "severity", "address", "slot", "title", "cause", "action", "repair", "evidence", "confidence",
    "rule",
    "follows_from",
]
INSIDE = {
    "Driver": "name module version firmware",
    "Link": "speed_gts width max_speed_gts max_width limit_speed_gts limit_width limited_by",
    "Bar": "index size address kind assigned", "Node": "path major minor owner group mode",
    "Note": "severity id text", "Held": "by since reason place", "Power": "state runtime",
    "Errors": "correctable nonfatal fatal",
    "Holder": "pid command user via node container pod job release unit since",
    "Hotplug": "driver capable surprise button power_controller indicator latch",
    "Evidence": "source line text time",
}


def words(kind: type) -> list[str]:
    return [f.name.rstrip("_") for f in fields(kind)]


@pytest.mark.parametrize(("kind", "contract"), [(Device, DEVICE), (Probed, PROBED), (Slot, SLOT), (Finding, FINDING)])
def test_documents_have_the_words_of_the_contract(kind: type, contract: list[str]) -> None:
    assert words(kind) == contract


@pytest.mark.parametrize("name", INSIDE)
def test_the_parts_of_documents_have_the_words_of_the_contract(name: str) -> None:
    assert words(getattr(model, name)) == INSIDE[name].split()


def test_json_keys_are_the_fields() -> None:
    assert list(plain(Device())) == DEVICE
    assert list(plain(Probed())) == PROBED


def test_fact_names_of_rules_are_the_fields() -> None:
    known = facts.names()
    for name in PROBED:
        assert name in known, f"no fact named {name}"
    hints = get_type_hints(Probed)
    for field in fields(Probed):
        hint = hints[field.name]
        kinds = [kind for kind in get_args(hint) if kind is not Unknown] if get_origin(hint) is not tuple else []
        inner = next((kind for kind in kinds if is_dataclass(kind)), None)
        for name in words(inner) if isinstance(inner, type) else []:
            assert f"{field.name}.{name}" in known


def test_could_not_look_is_neither_true_nor_false() -> None:
    with pytest.raises(TypeError, match="could not look"):
        bool(Unknown("denied", Kind.DENIED))


def test_two_unknowns_are_equal_when_their_kind_is() -> None:
    assert Unknown("a", Kind.IO) == Unknown("b", Kind.IO)
    assert Unknown("a", Kind.IO) != Unknown("a", Kind.DENIED)
    assert Unknown("a", Kind.IO) is not None
    assert plain(Unknown("why", Kind.NOT_ASKED)) == {"unknown": "why", "kind": "not_asked"}


NO, MAYBE, YES = Trit.NO, Trit.UNKNOWN, Trit.YES


def test_truth_follows_kleene() -> None:
    assert [negate(v) for v in (NO, MAYBE, YES)] == [YES, MAYBE, NO]
    assert [all_of([a, b]) for a in (NO, MAYBE, YES) for b in (NO, MAYBE, YES)] == [
        NO, NO, NO, NO, MAYBE, MAYBE, NO, MAYBE, YES]
    assert [any_of([a, b]) for a in (NO, MAYBE, YES) for b in (NO, MAYBE, YES)] == [
        NO, MAYBE, YES, MAYBE, MAYBE, YES, YES, YES, YES]
    assert (all_of([]), any_of([])) == (YES, NO)


@pytest.mark.parametrize(("raw", "address"), [
    ("3b:00.0", "0000:3b:00.0"), ("0000:3B:00.0", "0000:3b:00.0"), ("10000:e1:00.0", "10000:e1:00.0"),
    (" 0001:02:1f.7 ", "0001:02:1f.7"),
])
def test_addresses_are_read_as_people_write_them(raw: str, address: str) -> None:
    assert parse_address(raw) == address


@pytest.mark.parametrize("raw", ["", "3b", "3b:00", "3b:20.0", "3b:00.8", "slot:1", "0000:3b:00.0.1", "zz:00.0"])
def test_what_is_no_address_is_named(raw: str) -> None:
    with pytest.raises(HotplugError, match="is not a PCI address") as caught:
        parse_address(raw)
    assert caught.value.exit is Exit.USAGE

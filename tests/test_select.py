"""What a person means by a word on the command line."""

from __future__ import annotations

import pytest

from hotplugctl import probe, select
from hotplugctl.errors import Exit, HotplugError
from hotplugctl.model import Machine

from .machine import MachineTree


@pytest.fixture
def two(machine: MachineTree) -> Machine:
    """A card in slot 1 (ready but for its health check), an empty slot 2, a card without driver in slot 3."""
    machine.port()
    machine.card(serial_number="SN-ONE", numa_node="0")
    machine.port("0000:00:02.0", slot="2", bus=2, present=False)
    machine.port("0000:00:03.0", slot="3", bus=3)
    machine.card("0000:03:00.0", under="0000:00:03.0", driver=None)
    return probe.machine(machine.look())


@pytest.mark.parametrize("word", ["0000:01:00.0", "01:00.0", "slot:1", "/dev/accel/accel0", "SN-ONE"])
def test_every_way_to_name_a_card_finds_it(two: Machine, word: str) -> None:
    assert [d.address for d in select.choose(two, [word], select.Filters()).devices] == ["0000:01:00.0"]


def test_all_is_all_and_nothing_named_is_all(two: Machine) -> None:
    for named in (["all"], []):
        assert len(select.choose(two, named, select.Filters()).devices) == 2


def test_the_order_is_the_machine_s_and_nothing_comes_twice(two: Machine) -> None:
    found = select.choose(two, ["slot:3", "slot:1", "01:00.0"], select.Filters())
    assert [d.slot for d in found.devices] == ["1", "3"]


@pytest.mark.parametrize(("filters", "slots"), [
    ({"vendor": ["lab"]}, ["1", "3"]), ({"vendor": ["nvidia"]}, []), ({"state": ["mapped"]}, ["3"]),
    ({"state": ["mapped", "initialised"]}, ["1", "3"]), ({"slot": ["1"], "state": ["mapped"]}, []),
    ({"numa": [0]}, ["1"]),
])
def test_filters_are_or_within_and_and_across(two: Machine, filters: dict[str, list[str]], slots: list[str]) -> None:
    found = select.choose(two, [], select.Filters(**filters))  # type: ignore[arg-type]
    assert [d.slot for d in found.devices] == slots


def test_an_empty_slot_is_something_to_ask_about(two: Machine) -> None:
    assert select.choose(two, ["slot:2"], select.Filters()) == select.Chosen((), ("2",))


def test_an_address_that_is_gone_is_accepted_where_a_log_may_still_speak_of_it(two: Machine) -> None:
    assert select.choose(two, ["09:00.0"], select.Filters(), absent_ok=True).addresses == ("0000:09:00.0",)


def test_what_is_absent_names_what_is_near(two: Machine) -> None:
    with pytest.raises(HotplugError) as caught:
        select.choose(two, ["0000:01:00.1"], select.Filters())
    assert caught.value.exit is Exit.UNKNOWN
    assert "did you mean 0000:01:00.0" in str(caught.value)


@pytest.mark.parametrize(("filters", "says"), [
    ({"state": ["redy"]}, "no state 'redy'"), ({"vendor": ["nvdia"]}, "no vendor"), ({"label": ["x"]}, "KEY=VALUE"),
])
def test_a_filter_that_cannot_be_is_a_usage_error(filters: dict[str, list[str]], says: str) -> None:
    with pytest.raises(HotplugError, match=says) as caught:
        select.check_filters(select.Filters(**filters), {"lab": "Lab"})  # type: ignore[arg-type]
    assert caught.value.exit is Exit.USAGE

"""When a watch ends, and with which code: the contract's words, one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hotplugctl.errors import Exit, HotplugError
from hotplugctl.model import Change, ChangeKind, Device, State
from hotplugctl.select import Filters
from hotplugctl.watch import ending
from hotplugctl.watch.ending import Ending, Subject

ONE = Device(address="0000:01:00.0", slot="1", profile="lab", serial=None, uuid=None, nodes=())
TWO = replace(ONE, address="0000:02:00.0", slot="2")


def change(kind: ChangeKind, device: Device | None = None, **more: Any) -> Change:
    about = {"address": device.address, "device": device, "after": device.state} if device is not None else {}
    return Change(id="x", time="", monotonic=0.0, kind=kind, **{**about, **more})


def snapshot(*devices: Device) -> Change:
    return change(ChangeKind.SNAPSHOT, devices=len(devices), standing=devices)


def at(device: Device, state: State) -> Device:
    return replace(device, state=state)


def codes(end: Ending, *changes: Change) -> list[Exit | None]:
    return [end.after(one) for one in changes]


def test_named_devices_already_there_end_it_with_the_snapshot() -> None:
    end = Ending(Subject(("slot:1",)), State.READY)
    assert codes(end, snapshot(at(ONE, State.READY))) == [Exit.OK]


def test_every_one_named_has_to_be_there() -> None:
    end = Ending(Subject(("slot:1", "02:00.0")), State.READY)
    assert codes(end, snapshot(at(ONE, State.READY), at(TWO, State.BOUND)),
                 change(ChangeKind.READY, at(TWO, State.READY))) == [None, Exit.OK]


def test_without_names_it_is_the_first_change_to_the_state_after_the_snapshot() -> None:
    end = Ending(Subject(), State.READY)
    assert codes(end, snapshot(at(ONE, State.READY)), change(ChangeKind.ADDED, at(TWO, State.IDENTIFIED)),
                 change(ChangeKind.READY, at(TWO, State.READY))) == [None, None, Exit.OK]


def test_a_higher_rung_counts_and_a_hold_is_on_no_rung() -> None:
    assert codes(Ending(Subject(("slot:1",)), State.BOUND), snapshot(at(ONE, State.READY))) == [Exit.OK]
    assert codes(Ending(Subject(("slot:1",)), State.BOUND), snapshot(at(ONE, State.DRAINED))) == [None]


@pytest.mark.parametrize("wanted", [State.ABSENT, State.REMOVED])
def test_absent_and_removed_both_mean_gone(wanted: State) -> None:
    assert codes(Ending(Subject(("slot:1",)), wanted), snapshot()) == [Exit.OK]
    end = Ending(Subject(("slot:1",)), wanted)
    gone = change(ChangeKind.SURPRISE_REMOVED, at(ONE, State.REMOVED))
    assert codes(end, snapshot(at(ONE, State.READY)), gone) == [None, Exit.OK]


def test_a_failure_ends_it_with_fault_unless_failed_was_what_was_waited_for() -> None:
    failed = change(ChangeKind.FAILED, at(ONE, State.FAILED))
    assert codes(Ending(Subject(("slot:1",)), State.READY), snapshot(), failed) == [None, Exit.FAULT]
    assert codes(Ending(Subject(("slot:1",)), State.FAILED), snapshot(), failed) == [None, Exit.OK]


def test_what_had_failed_before_does_not_end_a_watch_of_everything() -> None:
    failed = change(ChangeKind.FAILED, at(ONE, State.FAILED))
    assert codes(Ending(Subject(), State.READY), snapshot(at(ONE, State.FAILED)), failed) == [None, None]


def test_without_until_a_failure_ends_nothing() -> None:
    assert codes(Ending(Subject()), snapshot(), change(ChangeKind.FAILED, at(ONE, State.FAILED))) == [None, None]


def test_a_count_counts_changes_and_not_the_snapshot() -> None:
    end = Ending(Subject(), count=2)
    added = change(ChangeKind.ADDED, at(ONE, State.IDENTIFIED))
    assert codes(end, snapshot(), added, added) == [None, None, Exit.OK]


def test_filters_decide_what_is_told() -> None:
    subject = Subject(filters=Filters(vendor=("nvidia",)))
    assert not subject.concerns(change(ChangeKind.ADDED, ONE))
    assert subject.concerns(change(ChangeKind.RESYNC))
    assert subject.narrowed((ONE, TWO)) == ()


def test_a_word_that_is_no_state_is_a_usage_error() -> None:
    with pytest.raises(HotplugError, match="'redy' is no state") as caught:
        ending.state("redy")
    assert caught.value.exit is Exit.USAGE

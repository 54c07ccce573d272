"""What is said of a device from one look to the next: walks through the tables, with times that are only numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hotplugctl.model import ChangeKind, Device, Errors, State
from hotplugctl.watch.moves import QUIET, Limits, Signs, Track, advance, first

CARD = Device(address="0000:01:00.0", slot="1", vendor_id="1234", device_id="11e8", serial=None, uuid=None, errors=None)
LIMITS = Limits(add=3.0, remove=1.0)
Step = tuple[float, Device | None, Signs]


def at(state: State, **more: Any) -> Device:
    return replace(CARD, state=state, rung=state, sure=True, **more)


def walk(*steps: Step, start: Device | None = None) -> list[tuple[str, ...]]:
    """The kinds said at each step."""
    track: Track | None = first("1", start, 0.0) if start is not None else None
    said = []
    for now, device, signs in steps:
        track, moves = advance("1", track, device, signs, now, LIMITS)
        said.append(tuple(move.kind.value for move in moves))
    return said


def last_move(*steps: Step, start: Device | None = None) -> Any:
    track: Track | None = first("1", start, 0.0) if start is not None else None
    moves: list[Any] = []
    for now, device, signs in steps:
        track, new = advance("1", track, device, signs, now, LIMITS)
        moves += new
    return moves[-1]


def test_a_card_comes_up_rung_by_rung_each_said_once() -> None:
    assert walk(
        (10.0, at(State.IDENTIFIED), Signs(enumerated=9.9)), (10.1, at(State.MAPPED), QUIET),
        (10.1, at(State.MAPPED), QUIET),
        (10.4, at(State.INITIALISED), QUIET), (10.9, at(State.READY), QUIET), (11.0, at(State.READY), QUIET),
    ) == [("added",), ("progress",), (), ("progress",), ("ready",), ()]


def test_the_budget_runs_from_the_card_s_own_enumeration_and_waiting_before_it_is_queued() -> None:
    ready = last_move(
        (16.0, at(State.MAPPED), Signs(present=10.0, enumerated=15.8)), (17.0, at(State.READY), QUIET))
    assert ready.budget is not None
    assert (ready.budget.took_s, ready.budget.met) == (1.2, True)
    assert ready.timings == {"queued": 5.8, "detected": 0.0, "identified": 0.0, "mapped": 0.2, "bound": 1.2,
                             "initialised": 1.2, "ready": 1.2}


def test_a_card_that_is_ready_at_once_is_still_said_to_have_passed_the_rungs_below() -> None:
    assert walk((10.0, at(State.READY), Signs(enumerated=9.5))) == [("added", "progress", "ready")]


def test_a_card_over_its_budget_is_late_once_and_still_becomes_ready() -> None:
    assert walk(
        (10.0, at(State.MAPPED), Signs(enumerated=10.0)), (13.5, at(State.BOUND), QUIET),
        (15.0, at(State.BOUND), QUIET), (16.0, at(State.READY), QUIET),
    ) == [("added",), ("progress", "late"), (), ("progress", "ready")]


def test_a_card_that_will_not_go_on_has_failed_once_with_the_kernel_s_words() -> None:
    stuck = Signs(kernel=("probe with driver labaccel failed with error -2",))
    steps: tuple[Step, ...] = (
        (10.0, at(State.MAPPED), Signs(enumerated=10.0)), (10.2, at(State.MAPPED), stuck),
        (14.0, at(State.MAPPED), stuck),
    )
    assert walk(*steps) == [("added",), ("failed",), ()]
    failed = last_move(*steps)
    assert (failed.because, failed.wants_diagnosis) == (stuck.kernel, True)


def test_what_was_repaired_after_a_failure_is_ready() -> None:
    stuck = Signs(kernel=("probe failed",))
    assert walk(
        (10.0, at(State.MAPPED), stuck), (60.0, at(State.INITIALISED), QUIET), (61.0, at(State.READY), QUIET)
    ) == [("added", "failed"), ("progress",), ("ready",)]


def test_a_removal_nobody_asked_for_is_removed_and_with_proof_a_surprise() -> None:
    assert walk((10.0, None, Signs(leaving=9.8)), start=at(State.READY)) == [("removed",)]
    proof = Signs(leaving=9.8, surprise=("Slot(1): Card not present",))
    gone = last_move((10.0, None, proof), start=at(State.READY))
    assert (gone.kind, gone.expected, gone.because) == (ChangeKind.SURPRISE_REMOVED, False, proof.surprise)
    assert gone.budget.took_s == 0.2


def test_a_button_press_announces_the_removal_and_a_second_takes_it_back() -> None:
    assert walk(
        (10.5, at(State.READY), Signs(button_off=10.0)), (15.2, None, Signs(leaving=15.0)), start=at(State.READY)
    ) == [("draining",), ("removed",)]
    pressed = last_move((10.5, at(State.READY), Signs(button_off=10.0)), start=at(State.READY))
    assert pressed.deadline_s == 4.5
    pressed_and_gone = ((10.5, at(State.READY), Signs(button_off=10.0)), (15.2, None, QUIET))
    assert last_move(*pressed_and_gone, start=at(State.READY)).expected
    assert walk(
        (10.5, at(State.READY), Signs(button_off=10.0)), (12.0, at(State.READY), Signs(button_cancel=11.9)),
        start=at(State.READY),
    ) == [("draining",), ("recovered",)]


def test_another_card_in_the_place_is_added_with_what_it_replaces() -> None:
    other = at(State.READY, serial="B")
    steps: tuple[Step, ...] = ((10.0, None, QUIET), (12.0, other, Signs(enumerated=11.0)))
    assert walk(*steps, start=at(State.READY, serial="A")) == [
        ("removed",), ("added", "progress", "ready")]
    track, _ = advance("1", first("1", at(State.READY, serial="A"), 0.0), None, QUIET, 10.0, LIMITS)
    _, moves = advance("1", track, other, QUIET, 12.0, LIMITS)
    assert moves[0].replaces == {"vendor_id": "1234", "device_id": "11e8", "serial": "A", "model": other.model}


def test_a_swap_whose_removal_nobody_saw_is_replaced() -> None:
    swapped = walk((10.0, at(State.READY, serial="B"), QUIET), start=at(State.READY, serial="A"))
    assert swapped == [("replaced", "progress", "ready")]


def test_the_same_ids_without_serials_are_not_called_another_card() -> None:
    assert walk((10.0, at(State.READY), QUIET), start=at(State.READY)) == [()]


def test_errors_degrade_once_and_recovery_recovers() -> None:
    begin = Signs(recovery="begin", errors=("AER: Uncorrectable (Non-Fatal) error",))
    assert walk(
        (10.0, at(State.READY), begin), (10.1, at(State.READY), QUIET), (10.2, at(State.READY), Signs(recovery="done")),
        start=at(State.READY),
    ) == [("degraded",), (), ("recovered",)]
    both = Signs(recovery="done", errors=("AER",))
    assert walk((10.0, at(State.READY), both), start=at(State.READY)) == [("degraded", "recovered")]


def test_a_counter_that_moved_degrades_and_a_correctable_one_does_not() -> None:
    before = at(State.READY, errors=Errors(0, 0, 0))
    assert walk((1.0, at(State.READY, errors=Errors(9, 0, 0)), QUIET), start=before) == [()]
    assert walk((1.0, at(State.READY, errors=Errors(0, 1, 0)), QUIET), start=before) == [("degraded",)]


def test_a_ready_card_that_falls_off_the_bus_has_failed() -> None:
    assert walk((1.0, at(State.FAILED), QUIET), start=at(State.READY)) == [("failed",)]


def test_a_card_that_loses_a_rung_is_degraded_and_recovers_when_it_is_back() -> None:
    assert walk(
        (1.0, at(State.BOUND), QUIET), (2.0, at(State.READY), QUIET), start=at(State.READY)
    ) == [("degraded",), ("recovered",)]


def test_a_card_that_loses_its_driver_before_any_event_may_be_on_its_way_out() -> None:
    unbound = at(State.MAPPED)
    steps: list[Step] = [(10.0, unbound, QUIET), (11.0, unbound, Signs(leaving=11.0))]
    assert walk(*steps, (11.1, None, QUIET), start=at(State.READY)) == [(), (), ("removed",)]
    gone = last_move(*steps, (11.1, None, QUIET), start=at(State.READY))
    assert gone.budget.took_s == 1.1, "since it was seen to go"
    assert walk(*steps, (15.1, unbound, QUIET), start=at(State.READY)) == [(), (), ("degraded",)]


def test_flapping_is_said_once() -> None:
    proof = Signs(surprise=("Card not present",))
    steps: list[Step] = []
    for n in range(5):
        steps += [(n * 4.0 + 1, None, proof), (n * 4.0 + 2, at(State.READY), QUIET)]
    said = [kind for kinds in walk(*steps, start=at(State.READY)) for kind in kinds]
    assert said.count("flapping") == 1
    assert said.count("surprise_removed") == 5


def test_a_card_on_its_way_out_is_not_called_degraded_or_failed() -> None:
    begun = Signs(leaving=9.9, surprise=("Slot(1): Link Down",))
    assert walk(
        (10.0, at(State.FAILED), begun), (10.1, at(State.BOUND), QUIET), (10.2, None, QUIET), start=at(State.READY)
    ) == [(), (), ("surprise_removed",)]
    gone = last_move((10.0, at(State.FAILED), begun), (10.4, None, QUIET), start=at(State.READY))
    assert gone.budget.took_s == 0.5


def test_a_removal_that_does_not_happen_is_judged_again_after_a_while() -> None:
    assert walk(
        (10.0, at(State.FAILED), Signs(leaving=9.9)), (30.0, at(State.FAILED), QUIET), start=at(State.READY)
    ) == [(), ("failed",)]


def test_a_card_taken_off_the_bus_and_left_in_its_slot_is_removed_once() -> None:
    seated = replace(CARD, address=None, state=State.DETECTED, rung=State.DETECTED)
    assert walk(
        (10.0, seated, Signs(leaving=9.9)), (12.0, seated, QUIET), (40.0, None, QUIET),
        (50.0, seated, Signs(present=50.0)), start=at(State.READY),
    ) == [("removed",), (), (), ("added",)]


def test_time_in_the_queue_before_enumeration_is_not_the_card_s() -> None:
    seated = replace(CARD, address=None, state=State.DETECTED, rung=State.DETECTED)
    steps: tuple[Step, ...] = (
        (10.0, seated, Signs(present=10.0)), (14.0, seated, QUIET),
        (16.0, at(State.IDENTIFIED), Signs(enumerated=15.9)), (17.0, at(State.READY), QUIET),
    )
    assert walk(*steps) == [("added",), (), ("progress",), ("progress", "ready")]
    ready = last_move(*steps)
    assert (ready.budget.took_s, ready.budget.met, ready.timings["queued"]) == (1.1, True, 5.9)


def test_a_card_that_never_reaches_the_bus_is_late_in_the_end() -> None:
    seated = replace(CARD, address=None, state=State.DETECTED, rung=State.DETECTED)
    assert walk((10.0, seated, Signs(present=10.0)), (24.0, seated, QUIET)) == [("added",), ("late",)]


def test_events_tell_the_time_of_a_rung_better_than_looks() -> None:
    ready = last_move(
        (10.0, at(State.IDENTIFIED), Signs(enumerated=9.9)), (11.0, at(State.READY), Signs(bound=10.3, node=10.2)))
    assert ready.timings == {"detected": 0.0, "identified": 0.0, "mapped": 0.4, "bound": 0.4, "initialised": 0.4,
                             "ready": 1.1}


def test_a_drain_announced_on_the_event_bus_is_said_once_and_taken_back_once() -> None:
    told = Signs(draining=(60.0,), ours=True)
    assert walk(
        (1.0, at(State.READY), told), (11.0, at(State.READY), told), (12.0, at(State.READY), Signs(undone=True)),
        (13.0, at(State.READY), Signs(undone=True)), start=at(State.READY),
    ) == [("draining",), (), ("recovered", "ready"), ()]
    assert last_move((1.0, at(State.READY), told), start=at(State.READY)).deadline_s == 60.0

"""The live table: what stands where, at any size, and the terminal it is drawn on."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from rich.cells import cell_len

from hotplugctl import show
from hotplugctl.model import Budget, Change, ChangeKind, Device, Note, Severity, State
from hotplugctl.options import Common, Output
from hotplugctl.output.live import NOTHING, Board, event

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
WHY = "bound: no driver is bound (expected labaccel), and this goes on for longer than any terminal is wide"


def device(slot: str | None = "1", state: State = State.READY, **more: Any) -> Device:
    address = f"0000:{int(slot):02x}:00.0" if slot is not None and slot.isdecimal() else "0000:7f:00.0"
    held = {"address": address, "model": "Ascend 910B", "rung": state, "sure": True}
    return Device(slot=slot, state=state, **(held | more))


def change(kind: ChangeKind, who: Device | None = None, at: float = 100.0, **more: Any) -> Change:
    return Change(id="x", time="2026-11-29T16:24:08.123Z", monotonic=at, kind=kind, device=who, **more)


def board(*changes: Change) -> Board:
    made = Board(3.0)
    for one in changes:
        made.take(one)
    return made


def snapshot(*standing: Device) -> Change:
    return change(ChangeKind.SNAPSHOT, devices=len(standing), standing=standing)


def lines(made: Board, width: int = 80, height: int = 24, now: float = 100.0, **more: Any) -> list[str]:
    return made.draw(width, height, now, **more).text.splitlines()


def climbing() -> Board:
    """One ready, one on its way, one late, one failed, one that only its slot sees."""
    mapped = device("3", State.MAPPED, missing=WHY)
    return board(
        snapshot(device("1")),
        change(ChangeKind.ADDED, device("2", State.BOUND, missing="initialised: firmware loads"), 99.0,
               timings={"queued": 5.0, "identified": 0.0, "bound": 0.5}),
        change(ChangeKind.ADDED, mapped, 95.0),
        change(ChangeKind.LATE, mapped, 98.5, budget=Budget(3.0, 3.5, None), because=(WHY,)),
        change(ChangeKind.FAILED, device("10", State.MAPPED), 99.0, because=("probe failed with error -2",)),
        change(ChangeKind.ADDED, device("4", State.DETECTED, address=None, model=None), 98.0),
    )


def test_a_terminal_of_120_columns_says_all_of_it() -> None:
    assert lines(climbing(), 120) == [
        "-" * 119,
        "SLOT  ADDRESS       MODEL        LADDER               ELAPSED  REMARK",
        "1     0000:01:00.0  Ascend 910B  ###### ready",
        "2     0000:02:00.0  Ascend 910B  ####-- bound         1.5/3 s  initialised: firmware loads",
        "3     0000:03:00.0  Ascend 910B  ###!-- mapped, late  5.0/3 s  "
        "bound: no driver is bound (expected labaccel), and thi..",
        "4     -             -            #----- detected      2.0 s",
        "10    0000:0a:00.0  Ascend 910B  ###x-- failed                 probe failed with error -2",
    ]


def test_a_terminal_of_80_columns_cuts_the_remark() -> None:
    shown = lines(climbing(), 80)
    assert "3     0000:03:00.0  Ascend ..  ###!-- mapped, late  5.0/3 s  bound: no driver.." in shown
    assert "1     0000:01:00.0  Ascend ..  ###### ready" in shown


def test_a_terminal_of_40_columns_keeps_address_and_ladder() -> None:
    assert lines(climbing(), 40)[1:] == [
        "SLOT  ADDRESS       LADDER",
        "1     0000:01:00.0  ###### ready",
        "2     0000:02:00.0  ####-- bound",
        "3     0000:03:00.0  ###!-- mapped, late",
        "4     -             #----- detected",
        "10    0000:0a:00.0  ###x-- failed",
    ]
    assert lines(climbing(), 36)[4:6] == ["0000:03:00.0  ###!-- mapped, late", "slot 4        #----- detected"]


def test_what_could_not_be_looked_at_is_shown_as_such() -> None:
    unknown = Device(address="0000:01:00.0", vendor_id="1234", device_id="11e8")
    assert lines(board(snapshot(unknown)))[1:] == [
        "ADDRESS       MODEL      LADDER", "0000:01:00.0  1234:11e8  ##---- identified?"]


@pytest.mark.parametrize("width", [*range(1, 130, 3), 1000])
@pytest.mark.parametrize("height", [1, 2, 5, 8, 24])
def test_no_size_is_exceeded_so_that_every_line_is_one_row(width: int, height: int) -> None:
    drawing = climbing().draw(width, height, 100.0)
    assert all(cell_len(line) < max(width, 2) for line in drawing.text.splitlines())
    assert len(drawing.text.splitlines()) == len(drawing.cells) <= max(1, height - 1)


def test_more_devices_than_rows_are_the_worst_and_a_count() -> None:
    many = [device(str(n)) for n in range(1, 40)]
    made = board(snapshot(*many, device("40", State.DRAINED), device("41", State.FAILED)),
                 change(ChangeKind.LATE, device("17", State.BOUND), budget=Budget(3.0, 4.0, None)))
    shown = lines(made, 80, 24)
    assert len(shown) == 18
    assert [line.split()[0] for line in shown[2:5]] == ["41", "17", "1"]
    assert shown[-1] == "26 more: 25 ready, 1 drained"
    assert lines(made, 80, 3)[-1] == "40 more: 1 late, 38 ready, 1 drained"
    assert lines(made, 80, 2) == ["41 devices: 1 failed, 1 late, 38 ready, 1 drained"]


def test_nothing_is_said_too() -> None:
    assert lines(board(snapshot()), 80) == ["-" * 79, NOTHING]
    assert lines(board(snapshot()), 12, 2) == ["no accele.."]


@pytest.mark.parametrize("width", [30, 40, 80, 120])
def test_colour_is_never_the_only_carrier(width: int) -> None:
    plain, coloured = ("\n".join(lines(climbing(), width, color=color)) for color in (False, True))
    assert "\x1b" not in plain
    assert "\x1b[1;31m###x-- failed\x1b[0m" in coloured
    assert ESCAPE.sub("", coloured) == plain


def test_an_event_line_has_the_colour_of_its_kind() -> None:
    gone = change(ChangeKind.SURPRISE_REMOVED, device())
    assert event(gone, color=True).startswith("\x1b[1;31m16:24:08.123  slot 1")
    assert ESCAPE.sub("", event(gone, color=True)) == event(gone)
    assert "\x1b" not in event(change(ChangeKind.ADDED, device()), color=True)


def test_the_time_of_a_card_on_its_way_runs_and_stops_when_it_is_ready() -> None:
    made = board(snapshot(), change(ChangeKind.ADDED, device("1", State.MAPPED), timings={"mapped": 0.25}))
    assert made.moving(100.0)
    assert "0.2/3 s" in lines(made)[-1]
    assert "2.8/3 s" in lines(made, now=102.5)[-1]
    made.take(change(ChangeKind.READY, device(), 100.6, budget=Budget(3.0, 0.85, True)))
    assert not made.moving(105.0)
    assert "###### ready  0.85/3 s" in lines(made, now=105.0)[-1]


def test_the_time_of_a_card_begins_anew_when_the_bus_shows_it() -> None:
    seated = device("1", State.DETECTED, address=None)
    made = board(snapshot(), change(ChangeKind.ADDED, seated, 90.0), change(
        ChangeKind.PROGRESS, device("1", State.BOUND), 100.0, timings={"queued": 9.0, "identified": 0.0, "bound": 1.0}))
    assert len(made.places) == 1
    assert "####-- bound  1.5/3 s" in lines(made, now=100.5)[-1]


def test_what_was_there_when_the_watch_began_is_not_timed() -> None:
    made = board(snapshot(device("1", State.BOUND)))
    made.take(change(ChangeKind.PROGRESS, device("1", State.INITIALISED), 101.0))
    assert not made.moving(101.0)
    assert "#####- initialised" in lines(made)[-1]


def test_a_pulled_card_stays_until_another_one_is_in_its_slot() -> None:
    gone = device("1", State.REMOVED)
    made = board(snapshot(device()), change(ChangeKind.SURPRISE_REMOVED, gone, because=("Card not present",)))
    assert lines(made)[-1] == "1     0000:01:00.0  Ascend 910B  ------ removed  Card not present"
    made.take(change(ChangeKind.ADDED, device("1", State.DETECTED, address=None)))
    made.take(change(ChangeKind.PROGRESS, device("1", State.MAPPED, address="0000:05:00.0")))
    assert list(made.places) == [("1", "0000:05:00.0")]


def test_two_functions_in_a_slot_are_two_rows() -> None:
    made = board(snapshot(device(), device(address="0000:01:00.1")))
    made.take(change(ChangeKind.READY, device()))
    assert len(made.places) == 2


def test_a_card_that_fell_off_the_bus_shows_how_far_it_was() -> None:
    made = board(snapshot(device()), change(ChangeKind.FAILED, device("1", State.FAILED), because=("all ones",)))
    assert "#####x failed" in lines(made)[-1]


def test_trouble_lasts_until_the_card_is_well_and_a_resync_forgets_nothing() -> None:
    worse = device("1", State.BOUND)
    made = board(snapshot(device()), change(ChangeKind.DEGRADED, worse, because=("fatal PCIe errors",)))
    made.take(replace(change(ChangeKind.RESYNC), standing=(worse,), lost=3))
    assert "####-- degraded" in lines(made)[-1]
    made.take(change(ChangeKind.RECOVERED, device(), because=("it is ready again",)))
    assert "###### ready" in lines(made)[-1]


def test_a_card_that_is_asked_to_leave_counts_down() -> None:
    made = board(snapshot(device()), change(ChangeKind.DRAINING, device("1", State.DRAINING), deadline_s=5.0))
    assert "3 s left" in lines(made, now=102.0)[-1]
    assert made.moving(104.0)
    assert not made.moving(106.0)
    assert "0 s left" in lines(made, now=106.0)[-1]


def test_notes_are_the_remark_of_a_ready_card() -> None:
    made = board(snapshot(device(notes=(Note(Severity.WARNING, "link", "x8 of x16"),))))
    assert lines(made)[-1].endswith("###### ready  x8 of x16")


def test_a_hostile_name_cannot_drive_the_terminal_or_break_a_row() -> None:
    evil = "\x1b[2J\nA100\u202e\x07" + "\u4f4d" * 60
    made = board(snapshot(device(model=evil, missing=evil, state=State.BOUND)), change(
        ChangeKind.FAILED, device("2", model=evil), because=(evil,)))
    for width in (20, 40, 80, 120):
        drawing = made.draw(width, 24, 100.0, encoding="ascii")
        assert drawing.text.replace("\n", "").isprintable()
        assert drawing.text.isascii()
        wide = made.draw(width, 24, 100.0)
        assert all(cell_len(line) < width for line in wide.text.splitlines())
        assert len(wide.text.splitlines()) == 4


def test_a_terminal_that_was_made_narrower_has_wrapped_the_table() -> None:
    drawing = board(snapshot()).draw(80, 24, 100.0)
    assert [drawing.rows(width) for width in (80, 79, 40, 36, 20)] == [2, 2, 3, 4, 6]


# --- at a terminal -------------------------------------------------------------------------------------------------


@dataclass
class Terminal:
    """A pseudo-terminal, and what somebody sees on it: enough of a VT100 for what the table uses."""

    master: int
    slave: int
    sent: str = ""

    def size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, until: Callable[[str], bool] = lambda _: False, seconds: float = 5.0) -> str:
        """What came until then."""
        new, end = "", time.monotonic() + seconds
        while not until(new) and (left := end - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                try:
                    new += os.read(self.master, 65536).decode()
                except OSError:
                    break
        self.sent += new
        return new

    def screen(self, columns: int) -> list[str]:
        """All rows ever, the scrollback too; anything but text, CR, LF, colours, "up" and "erase below" is an error."""
        rows, row, column = [""], 0, 0
        for token in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|[\s\S]", self.sent):
            if token == "\r":
                column = 0
            elif token == "\n":
                row += 1
            elif token.endswith("A") and len(token) > 1:
                row -= int(token[2:-1])
            elif token == "\x1b[J":
                rows[row:] = [rows[row][:column]]
            elif not ESCAPE.fullmatch(token):
                assert token.isprintable(), f"{token!r} was sent"
                if column == columns:
                    row, column = row + 1, 0
                rows += [""] * (row + 1 - len(rows))
                rows[row] = rows[row][:column].ljust(column) + token + rows[row][column + 1:]
                column += 1
            rows += [""] * (row + 1 - len(rows))
        return [line.rstrip() for line in rows]


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """A terminal of 80x24."""
    master, slave = pty.openpty()
    made = Terminal(master, slave)
    made.size(80, 24)
    yield made
    os.close(master)
    os.close(slave)


@contextmanager
def ours(terminal: Terminal, **variables: str) -> Iterator[None]:
    """That terminal as our own stdout and stderr. No fixture: pytest sets its own streams between setup and test."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as opened:
        for name in ("stdout", "stderr"):
            file = os.fdopen(os.dup(terminal.slave), "w", encoding="utf-8")
            patch.setattr(sys, name, opened.enter_context(file))
        for name, value in {"TERM": "xterm", "NO_COLOR": "1", **variables}.items():
            patch.setenv(name, value)
        yield


ON_ITS_WAY = change(ChangeKind.ADDED, device("1", State.MAPPED, missing=WHY), 110.0, missing=WHY)


def test_events_scroll_above_one_table_whose_clock_runs_only_for_a_card_on_its_way(terminal: Terminal) -> None:
    with ours(terminal), show.changes(Common(), 3.0) as tell:
        tell(snapshot())
        terminal.read(seconds=1.3)
        assert terminal.read(seconds=0.1) == ""
        tell(ON_ITS_WAY)
        terminal.read(lambda new: "0.0/3 s" in new)
        assert re.search(r"(0\.[1-9]|1\.\d)/3 s", terminal.read(lambda new: "/3 s" in new, 2.0))
        show.hint(Common(), "a hook failed")
        tell(change(ChangeKind.READY, device(), 111.0, budget=Budget(3.0, 1.0, True)))
    terminal.read(seconds=0.1)
    assert terminal.screen(80) == [
        "16:24:08.123  watching 0 devices",
        f"16:24:08.123  slot 1 0000:01:00.0  added  Ascend 910B; {WHY}"[:80],
        f"16:24:08.123  slot 1 0000:01:00.0  added  Ascend 910B; {WHY}"[80:],
        "hotplugctl: a hook failed",
        "16:24:08.123  slot 1 0000:01:00.0  ready  1.00 s, within 3 s",
        "-" * 79,
        "SLOT  ADDRESS       MODEL        LADDER        ELAPSED",
        "1     0000:01:00.0  Ascend 910B  ###### ready  1.00/3 s",
        "",
    ]


def test_a_new_size_is_followed_without_any_event(terminal: Terminal) -> None:
    with ours(terminal), show.changes(Common(), 3.0) as tell:
        tell(snapshot(device()))
        terminal.read(lambda new: "ready" in new)
        terminal.size(40, 20)
        new = terminal.read(lambda new: "ready" in new, 2.0)
    # the rule and the row had become two rows each
    assert new.startswith("\x1b[5A\r\x1b[J" + "-" * 39 + "\r\n")
    assert max(map(len, new.split("\r\n")[1:])) < 40


def test_what_is_said_before_the_first_change_is_said_without_a_table(terminal: Terminal) -> None:
    with ours(terminal), show.changes(Common(), 3.0):
        show.hint(Common(), "udevd is not running")
    assert terminal.read(seconds=0.1) == "hotplugctl: udevd is not running\r\n"


@pytest.mark.parametrize(("form", "term"), [(Output.auto, "dumb"), (Output.plain, "xterm"), (Output.tsv, "xterm")])
def test_a_dumb_terminal_and_the_other_forms_have_plain_lines(
    terminal: Terminal, form: Output, term: str
) -> None:
    with ours(terminal, TERM=term), show.changes(Common(output=form), 3.0) as tell:
        tell(ON_ITS_WAY)
    assert terminal.read(seconds=0.1) == f"16:24:08.123  slot 1 0000:01:00.0  added  Ascend 910B; {WHY}\r\n"


def test_piped_lines_are_plain_also_for_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    with show.changes(Common(output=Output.table), 3.0) as tell:
        tell(ON_ITS_WAY)
    assert capsys.readouterr().out == event(ON_ITS_WAY)


def test_ctrl_c_leaves_the_last_table_and_exits_130(terminal: Terminal) -> None:
    takes_it = "import fcntl, os, sys; fcntl.ioctl(0, int(sys.argv[1]), 0); os.execv(sys.argv[2], sys.argv[2:])"
    command = [sys.executable, "-m", "hotplugctl", "watch", "--source", "kernel", "--color", "never"]
    with subprocess.Popen(
        [sys.executable, "-c", takes_it, str(termios.TIOCSCTTY), *command], stdin=terminal.slave, stdout=terminal.slave,
        stderr=terminal.slave, env={**os.environ, "TERM": "xterm"}, start_new_session=True,
    ) as watch:
        terminal.read(lambda new: "-" * 79 in new, 8.0)
        terminal.size(40, 20)
        terminal.read(lambda new: "\n" + "-" * 39 + "\r" in new or "J" + "-" * 39 + "\r" in new, 3.0)
        os.write(terminal.master, b"\x03")
        assert watch.wait(5) == 130
    terminal.read(seconds=0.1)
    _, last = terminal.sent.rsplit("\x1b[J", 1)
    assert last.startswith("-" * 39 + "\r\n")
    assert "?25l" not in terminal.sent

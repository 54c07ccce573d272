"""Lines of several sources stand in one order where the evidence tells it, and apart where it does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotplugctl.diagnose import diagnose
from hotplugctl.model import Diagnosis, Machine, Moment
from hotplugctl.output.tables import render
from hotplugctl.output.verdicts import timelines
from hotplugctl.readers.logs import read_log
from hotplugctl.rules import load

RULES = load.load_rules(load.rule_files())
CARD = "0000:3b:00.0"
KERNEL = [
    (100.0, "pcieport 0000:3a:01.0: pciehp: Slot(7): Card present"),
    (100.2, "pcieport 0000:3a:01.0: pciehp: Slot(7): Link Up"),
    (100.5, f"pci {CARD}: [10de:2330] type 00 class 0x030200 PCIe Endpoint"),
    (101.0, f"pci {CARD}: BAR 2 [mem size 0x1000000000 64bit pref]: can't assign; no space"),
    (101.5, f"nvidia {CARD}: enabling device (0000 -> 0002)"),
]
DMESG = "".join(f"[{at:12.6f}] {text}\n" for at, text in KERNEL)
# The kernel's second 100 is 08:10:00 in UTC.
PROGRAM = "2026-03-02T08:10:01.250000+00:00 node7 app[12]: CUDA error: no CUDA-capable device is detected\n"


def told(*texts: tuple[str, str], **machine: object) -> Diagnosis:
    logs = tuple(line for source, text in texts for line in read_log(text, source))
    whole = Machine(host="node7", logs=logs, **machine)  # type: ignore[arg-type]
    return diagnose(whole, RULES, load.taxonomy(), load.profiles(), live=False)


def order(found: Diagnosis) -> list[tuple[str, int | None]]:
    return [(moment.source, moment.line) for moment in found.timeline]


def moment(found: Diagnosis, source: str, line: int) -> Moment:
    return next(one for one in found.timeline if (one.source, one.line) == (source, line))


def journal(*, zone: str = "+00:00", skew: float = 0.0) -> str:
    return "".join(
        f"2026-03-02T08:10:{at - 100 + skew:09.6f}{zone} node7 kernel: {text}\n" for at, text in KERNEL)


def test_kernel_lines_that_stand_in_both_put_dmesg_and_journal_on_one_clock() -> None:
    found = told(("dmesg.txt", DMESG), ("journal.txt", journal() + PROGRAM))
    assert [clock.sources for clock in found.clocks] == [("dmesg.txt", "journal.txt")]
    assert found.clocks[0].because == ("5 lines stand in both dmesg.txt and journal.txt",)
    times = [one.after for one in found.timeline]
    assert times == sorted(times, key=lambda at: at or 0.0)
    assert moment(found, "dmesg.txt", 4).time == "2026-03-02T08:10:01.000+00:00"
    assert moment(found, "journal.txt", 6).monotonic == pytest.approx(101.25)
    assert order(found)[-3:] == [("journal.txt", 6), ("dmesg.txt", 5), ("journal.txt", 5)]


def test_without_a_common_line_two_logs_stay_apart_and_it_is_said() -> None:
    found = told(("dmesg.txt", DMESG), ("app.log", PROGRAM))
    assert len(found.clocks) == 2
    assert {clock.sources for clock in found.clocks} == {("dmesg.txt",), ("app.log",)}
    assert all("nothing in the evidence ties it" in clock.because[0] for clock in found.clocks)
    numbers = [one.clock for one in found.timeline]
    assert numbers == sorted(numbers), "each clock's lines stand together"
    assert moment(found, "dmesg.txt", 1).time is None


def test_a_journal_line_with_both_stamps_gives_the_offset() -> None:
    syslog = f"2026-03-02T08:10:00.000000+00:00 node7 kernel: [  100.000000] {KERNEL[0][1]}\n"
    found = told(("dmesg.txt", DMESG), ("syslog", syslog + PROGRAM))
    assert len(found.clocks) == 1
    assert moment(found, "syslog", 2).after == pytest.approx(1.25)
    assert order(found)[-2:] == [("syslog", 2), ("dmesg.txt", 5)]


def test_the_journals_json_has_both_times() -> None:
    record = {"MESSAGE": KERNEL[1][1], "SYSLOG_IDENTIFIER": "kernel", "_SOURCE_MONOTONIC_TIMESTAMP": "100200000",
              "__REALTIME_TIMESTAMP": "1772439000200000"}
    line = read_log(json.dumps(record), "journal.json")[0]
    assert line.monotonic == 100.2
    assert line.time == "2026-03-02T08:10:00.200000+00:00"


def test_whole_seconds_say_so_and_do_not_go_before_the_line_above_them() -> None:
    coarse = "".join(f"2026-03-02T08:10:{int(at - 100):02d}+00:00 node7 kernel: {text}\n" for at, text in KERNEL)
    found = told(("dmesg.txt", DMESG), ("journal.txt", coarse))
    assert found.clocks[0].exact <= 0.5
    assert [line for source, line in order(found) if source == "journal.txt"] == [1, 2, 3, 4, 5]
    apart = [abs((moment(found, "dmesg.txt", n).after or 0) - (moment(found, "journal.txt", n).after or 0))
             for n in range(1, 6)]
    assert max(apart) <= 1.0


def test_a_log_without_a_zone_is_taken_as_local_where_that_fits_and_it_is_said() -> None:
    plog = "[ERROR] RUNTIME(9120,python3):2026-03-02-16:10:01.300.000 [x.cc:1]9188 SyncTask:Device[3] lost heartbeat.\n"
    found = told(("journal.txt", journal(zone="+08:00").replace("T08:", "T16:")), ("plog.log", plog))
    assert len(found.clocks) == 1
    assert "plog.log names no time zone: taken in the zone that the other times carry" in found.clocks[0].because
    assert moment(found, "plog.log", 1).after == pytest.approx(1.3)


def test_a_log_of_another_zone_is_not_mixed_in() -> None:
    plog = "[ERROR] RUNTIME(9120,python3):2026-03-02-08:10:01.300.000 [x.cc:1]9188 SyncTask:Device[3] lost heartbeat.\n"
    found = told(("journal.txt", journal(zone="+08:00").replace("T08:", "T16:")), ("plog.log", plog))
    assert len(found.clocks) == 2


def test_two_boots_in_one_file_are_two_clocks() -> None:
    found = told(("dmesg.txt", DMESG + DMESG.replace("[  10", "[   2")))
    assert [clock.number for clock in found.clocks] == [0, 1]
    assert [one.clock for one in found.timeline] == [0] * 5 + [1] * 5


def test_the_same_boot_lines_of_two_boots_tie_nothing() -> None:
    later = "".join(f"[{at + 0.0131 * n:12.6f}] {text}\n" for n, (at, text) in enumerate(KERNEL, 1))
    assert len(told(("one.txt", DMESG), ("two.txt", later)).clocks) == 2


def test_a_machine_that_told_its_uptime_gives_its_kernel_log_the_time_of_day() -> None:
    found = told(("/dev/kmsg", DMESG), taken_at="2026-03-02T08:20:00.000Z", uptime=700.0)
    assert moment(found, "/dev/kmsg", 4).time == "2026-03-02T08:10:01+00:00"
    assert "had been up for 700 seconds" in found.clocks[0].because[0]


def test_a_line_without_a_time_stands_after_the_line_above_it_and_says_that_it_has_none() -> None:
    text = PROGRAM + "CUDA error: no CUDA-capable device is detected\n"
    found = told(("app.log", text))
    assert order(found)[-1] == ("app.log", 2)
    assert moment(found, "app.log", 2).after is None


def test_a_line_means_what_holds_not_what_some_rule_would_make_of_it() -> None:
    found = told(("dmesg.txt", DMESG))
    assert moment(found, "dmesg.txt", 2).meaning == "A card is on its way in."
    assert moment(found, "dmesg.txt", 2).root_cause is None
    proof = moment(found, "dmesg.txt", 4)
    assert proof.proof
    assert found.root_cause is not None
    assert (proof.root_cause, proof.meaning) == (found.root_cause.id, found.root_cause.cause)


def test_too_many_lines_leave_out_the_least_and_say_how_many() -> None:
    noise = "".join(f"[{n:12.6f}] pcieport 0000:3a:01.0: pciehp: Slot(7): Link Up\n" for n in range(300, 900))
    found = told(("dmesg.txt", DMESG + noise))
    assert len(found.timeline) == 200
    assert found.timeline_left_out == 405
    assert moment(found, "dmesg.txt", 4).proof


def test_the_text_form_marks_the_proof_and_gives_seconds_from_the_first_line() -> None:
    said = "".join(render(page, "plain") for page in timelines(told(("dmesg.txt", DMESG), ("app.log", PROGRAM))))
    assert "TIMELINE of dmesg.txt, from [ 100.000000] on" in said
    assert "+1.000 s  [ 101.000000]  0000:3b:00.0  dmesg.txt:4" in said
    assert "nothing in the evidence ties it to the clock of app.log" in said
    assert [line[0] for line in said.splitlines() if "can't assign" in line] == ["*"]


def test_real_cases_lose_no_line_of_proof() -> None:
    from .test_cases import CASES, answer

    for case in CASES:
        found = answer(Path(case))
        shown = {(one.source, one.line) for one in found.timeline}
        for finding in found.findings:
            assert {(p.source, p.line) for p in finding.evidence if p.line is not None} <= shown, case.name

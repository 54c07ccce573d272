"""What a machine tells beside sysfs: logs of vendors and applications of the last hour, the journal's kernel lines."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from hotplugctl import beside, capture, config, look
from hotplugctl.case import from_machine
from hotplugctl.errors import Exit, HotplugError
from hotplugctl.host.live import FILE_END, Live
from hotplugctl.host.opening import open_host
from hotplugctl.host.recorder import Recorder
from hotplugctl.host.redact import Redactor
from hotplugctl.host.redacted import Redacted
from hotplugctl.model import LogFile
from hotplugctl.readers import logfiles
from hotplugctl.select import Filters

from .machine import MachineTree

NOW = datetime(2026, 3, 4, 4, 0, 0)
HEARTBEAT = (
    "[ERROR] RUNTIME(9120,python3):{}.482.260 [direct_hwts_engine.cc:407]9188 SyncTask:Device[0] lost heartbeat.\n"
    "[ERROR] RUNTIME(9120,python3):{}.482.391 [api_c_stream.cc:112]9188 rtStreamSynchronize:ErrCode=507010\n"
)


def said(at: datetime) -> str:
    stamp = at.strftime("%Y-%m-%d-%H:%M:%S")
    return HEARTBEAT.format(stamp, stamp)


@pytest.fixture
def npu(machine: MachineTree) -> MachineTree:
    """An Ascend card with logs of now and of last month."""
    machine.port()
    machine.card(vendor="19e5", device="d802", driver="devdrv_device_driver", dev_id="0")
    machine.put("/var/log/npu/slog/device-0/device-0_20260304035000.log", said(NOW - timedelta(minutes=10)))
    machine.put("/var/log/npu/slog/device-0/device-0_20260201035000.log", said(NOW - timedelta(days=31)))
    machine.put("/home/mara/ascend/log/debug/plog/plog-9120_20260304035000.log", said(NOW - timedelta(minutes=9)))
    machine.put("/var/log/hotreset_status.log", "no time in it: hot reset failed\n")
    return machine


def test_a_glob_means_what_it_means_in_the_shell(npu: MachineTree) -> None:
    found = logfiles.files(npu.host, "/var/log/npu/slog/**/*.log")
    assert [path.rsplit("/", 1)[1] for path in found] == [
        "device-0_20260201035000.log", "device-0_20260304035000.log"]
    assert logfiles.files(npu.host, "/home/*/ascend/log/**/plog-*.log") == [
        "/home/mara/ascend/log/debug/plog/plog-9120_20260304035000.log"]
    assert logfiles.files(npu.host, "/var/log/hotreset_status.log") == ["/var/log/hotreset_status.log"]
    assert logfiles.files(npu.host, "/nowhere/*.log") == []


def test_the_newest_files_of_many_are_read() -> None:
    names = [f"/l/plog-{90000 - n}_2026030403{n:04}.log" for n in range(100)]
    assert logfiles.newest(names) == sorted(names[-logfiles.MOST_FILES:])


def test_lines_of_the_last_hour_count_and_older_ones_do_not(npu: MachineTree) -> None:
    wanted = [LogFile("/var/log/npu/slog/**/*.log", "x"), LogFile("/var/log/hotreset_status.log", "text")]
    lines, gaps = logfiles.read(npu.host, wanted, NOW - timedelta(hours=1))
    assert ({line.source.rsplit("_", 1)[1] for line in lines}, len(lines), gaps) == ({"20260304035000.log"}, 2, ())
    assert len(logfiles.read(npu.host, wanted, NOW - timedelta(days=60))[0]) == 4


def test_the_vendors_of_the_cards_here_and_the_configuration_name_the_logs(npu: MachineTree) -> None:
    seen = npu.look(logs=(LogFile("/srv/app/*.log", "application"),))
    paths = {log.path for log in beside.files_of(seen)}
    assert {"/var/log/npu/slog/**/*.log", "/srv/app/*.log"} <= paths
    assert not any("nvidia" in path for path in paths)


def test_an_application_log_of_the_configuration_is_evidence(npu: MachineTree, tmp_path: Path) -> None:
    npu.put("/srv/app/train.log", "2026-03-04 03:59:00 ERROR torch_npu: rtStreamSynchronize failed, ErrCode=507010\n")
    seen = npu.look(logs=(LogFile("/srv/app/*.log", "application"),))
    found = from_machine(seen, (), Filters(), None)
    assert any(line.source == "/srv/app/train.log" for line in found.machine.logs)


def test_a_capture_carries_the_logs_redacted_and_reads_them_back(npu: MachineTree, tmp_path: Path) -> None:
    recorder = Recorder(Redacted(npu.host, Redactor(b"key", ("m1",))), "test")
    seen = look.look(recorder, config.Settings(), npu.profiles)
    live = from_machine(seen, (), Filters(), None)
    capture.save(seen, str(tmp_path / "bundle.tar.gz"))
    bundle = open_host(str(tmp_path / "bundle.tar.gz"))
    again = from_machine(look.look(bundle, config.Settings(), capture.profiles_of(bundle)), (), Filters(), None)
    assert [(line.source, line.text) for line in again.machine.logs] == [
        (line.source, line.text) for line in live.machine.logs]
    assert any("/plog/plog-9120" in line.source and "mara" not in line.source for line in again.machine.logs)


def test_the_journal_tells_what_the_kernels_buffer_has_lost(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    rows = [
        {"MESSAGE": "pcieport 0000:00:01.0: pciehp: Slot(1): Power fault", "_SOURCE_MONOTONIC_TIMESTAMP": "2000000",
         "SYSLOG_IDENTIFIER": "kernel", "PRIORITY": "3"},
        {"MESSAGE": "a line that both have", "_SOURCE_MONOTONIC_TIMESTAMP": "90000000", "SYSLOG_IDENTIFIER": "kernel"},
    ]
    machine.put("/journal", "\n".join(json.dumps(row) for row in rows))
    machine.put("/kmsg", "6,9,90000000,-;a line that both have")
    lines = beside.kernel_lines(machine.look())
    assert isinstance(lines, tuple)
    assert [(line.source, line.text[:8]) for line in lines] == [
        ("journalctl -k", "pcieport"), ("/dev/kmsg", "a line t")]
    (machine.root / "kmsg").unlink()
    alone = beside.kernel_lines(machine.look())
    assert isinstance(alone, tuple)
    assert [line.monotonic for line in alone] == [2.0, 90.0], "the buffer may not be read, the journal may"
    machine.put("/kmsg", "6,1,100000,-;from the very start")
    whole = beside.kernel_lines(machine.look())
    assert isinstance(whole, tuple)
    assert [line.source for line in whole] == ["/dev/kmsg"]


def test_the_end_of_a_log_file_is_read_whole_lines_only(tmp_path: Path) -> None:
    live = Live()
    path = tmp_path / "app.log"
    path.write_text("short\n")
    assert live.log(str(path)) == "short\n"
    path.write_text("".join(f"{n:09}\n" for n in range(FILE_END // 10 + 100)))
    text = live.log(str(path))
    assert isinstance(text, str)
    assert (len(text) <= FILE_END, text[9], text.endswith(f"{FILE_END // 10 + 99:09}\n")) == (True, "\n", True)
    assert live.log(str(tmp_path / "none")) is None
    assert not isinstance(live.log("/dev/zero"), str)


def test_a_path_of_the_configuration_is_absolute(root_owned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = root_owned / "config.yaml"
    file.write_text('logs: [{path: "/var/log/serving/*.log", kind: application}, {path: /var/log/more.log}]\n')
    assert config.settings(str(file)).logs == (
        LogFile("/var/log/serving/*.log", "application"), LogFile("/var/log/more.log", "application"))
    assert ("logs", "/var/log/serving/*.log (application); /var/log/more.log (application)", str(file)) in config.shown(
        config.settings(str(file)))
    file.write_text("logs: [{path: app.log}]\n")
    with pytest.raises(HotplugError, match="no absolute path") as caught:
        config.settings(str(file))
    assert caught.value.exit is Exit.USAGE


def test_there_is_a_bound_to_what_all_log_files_together_give(
    npu: MachineTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfiles, "MOST_TOTAL", 10)
    wanted = [LogFile("/var/log/npu/slog/**/*.log", "x")]
    _, (gap,) = logfiles.read(npu.host, wanted, NOW - timedelta(days=60))
    assert (gap.half, "too many" in gap.reason) == (True, True)

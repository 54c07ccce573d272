"""Log text in every form people send: times, levels, hosts, and the device each line names."""

from __future__ import annotations

import json
import math

import pytest

from hotplugctl.diagnose.instances import settle
from hotplugctl.readers.logs import parse_log, read_log
from hotplugctl.rules.hearing import seconds

FAULT = "pcieport 0000:64:02.0: pciehp: Slot(9): Power fault"


@pytest.mark.parametrize(("form", "text", "monotonic", "time"), [
    ("dmesg", f"[ 2211.118240] {FAULT}", 2211.11824, None),
    ("dmesg -r", f"<3>[ 2211.118240] {FAULT}", 2211.11824, None),
    ("dmesg -x", f"kern  :err   : [ 2211.118240] {FAULT}", 2211.11824, None),
    ("dmesg with the caller", f"[ 2211.118240][  T511] {FAULT}", 2211.11824, None),
    ("dmesg -T", f"[Tue Sep 19 08:41:11 2023] {FAULT}", None, "2023-09-19T08:41:11"),
    ("dmesg --time-format iso", f"2023-09-19T08:41:11,123456+02:00 {FAULT}", None, "2023-09-19T08:41:11.123456+02:00"),
    ("/dev/kmsg", f"3,1742,2211118240,-;{FAULT}", 2211.11824, None),
    ("journalctl -o short", f"Sep 19 08:41:11 node-a kernel: {FAULT}", None, "--09-19T08:41:11"),
    ("journalctl -o short-precise", f"Sep  9 08:41:11.123456 node-a kernel: {FAULT}", None, "--09-09T08:41:11"),
    ("journalctl in Chinese", f"9月 19 08:41:11 node-a kernel: {FAULT}", None, "--09-19T08:41:11"),
    ("journalctl in French", f"avril 19 08:41:11 node-a kernel: {FAULT}", None, "--04-19T08:41:11"),
    ("journalctl in German", f"M\u00e4r 19 08:41:11 node-a kernel: {FAULT}", None, "--03-19T08:41:11"),
    ("journalctl in a tongue nobody taught us", f"kwi 19 08:41:11 node-a kernel: {FAULT}", None, None),
    ("a guest's line in its runtime's log", f'level=info msg="[ 2211.118240] {FAULT}\\n" source=x', 2211.11824, None),
    ("journalctl -o short-iso", f"2023-09-19T08:41:11+0200 node-a kernel: {FAULT}", None, "2023-09-19T08:41:11+02:00"),
    ("journalctl -o short-monotonic", f"[ 2211.118240] node-a kernel: {FAULT}", 2211.11824, None),
    ("dmesg with the caller, spaced", f"[ 2211.118240] [    T140] {FAULT}", 2211.11824, None),
    ("quoted in a mail", f"> > [ 2211.118240] {FAULT}", 2211.11824, None),
    ("no form at all", FAULT, None, None),
    ("Windows line ends", f"[ 2211.118240] {FAULT}\r\n", 2211.11824, None),
    ("colour", "\x1b[32m[ 2211.118240] \x1b[0m\x1b[33mpcieport 0000:64:02.0: \x1b[0mpciehp: Slot(9): Power fault",
     2211.11824, None),
])
def test_a_line_is_read_in_every_form(form: str, text: str, monotonic: float | None, time: str | None) -> None:
    (line,) = read_log(text, "log")
    assert line.text == FAULT, form
    assert (line.monotonic, line.time) == (monotonic, time)
    assert (line.address, line.slot, line.line) == ("0000:64:02.0", "9", 1)


@pytest.mark.parametrize(("form", "text"), [
    ("dmesg -J", json.dumps({"dmesg": [{"pri": 3, "time": 2211.5, "msg": FAULT}]}, indent=3)),
    ("journalctl -o json", json.dumps(
        {"MESSAGE": FAULT, "_SOURCE_MONOTONIC_TIMESTAMP": "2211500000", "PRIORITY": "3", "SYSLOG_IDENTIFIER": "kernel",
         "_HOSTNAME": "node-a"})),
    ("journalctl -o json with bytes", json.dumps(
        {"MESSAGE": list(FAULT.encode()), "_SOURCE_MONOTONIC_TIMESTAMP": "2211500000", "PRIORITY": "3"})),
])
def test_json_logs_are_read(form: str, text: str) -> None:
    (line,) = read_log(text, "log")
    assert (line.text, line.monotonic, line.priority, line.slot) == (FAULT, 2211.5, 3, "9"), form


def test_levels_and_hosts_are_read() -> None:
    assert read_log(f"kern  :err   : [ 1.5] {FAULT}", "log")[0].priority == 3
    assert read_log(f"3,1,1,-;{FAULT}", "log")[0].priority == 3
    assert parse_log(f"Sep 19 08:41:11 node-a kernel: {FAULT}", "log").hosts == ("node-a",)


def test_a_user_space_line_of_a_journal_keeps_its_name() -> None:
    assert read_log("Sep 19 08:41:11 node-a systemd[1]: Reloading.", "log")[0].text == "systemd[1]: Reloading."


def test_a_kmsg_record_names_its_device_itself() -> None:
    text = "6,1742,2211118240,-;Device is \\x1b[31m gone\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n"
    (line,) = read_log(text, "log")
    assert line.address == "0000:3b:00.0"
    assert line.text == "Device is \x1b[31m gone", "escapes stay data"


def test_a_message_of_several_lines_is_about_one_device() -> None:
    text = (
        "[   10.4] NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\n"
        "               NVRM: BAR1 is 0M @ 0x0 (PCI:0000:0a:00.0)\n"
        "[   10.5] unrelated\n"
    )
    first, second, third = read_log(text, "log")
    assert (first.address, second.address, third.address) == ("0000:0a:00.0", "0000:0a:00.0", None)
    assert second.monotonic == 10.4


@pytest.mark.parametrize(("text", "address"), [
    ("NVRM: Xid (PCI:0000:C1:00): 79, GPU has fallen off the bus.", "0000:c1:00.0"),
    ("2026/02/20, 1, 00000000:3B:00.0, 3, 5", "0000:3b:00.0"),
    ("[ascend] [drv_pcie] [f 1] <k> Probe driver IN. (chip_type=3; bdf=82:00.0)", "0000:82:00.0"),
    ("DMAR: [DMA Read] Request device [00:02.0] fault addr 9c000000", "0000:00:02.0"),
    ("AMD-Vi: Event logged [IO_PAGE_FAULT device=03:00.0 domain=0x12]", "0000:03:00.0"),
    ("$ virsh nodedev-reattach pci_0000_01_00_0", "0000:01:00.0"),
    ("devdrv_device_driver: probe of 0000:41:00.0 failed with error -22", "0000:41:00.0"),
    ("nvme 10000:e1:00.0: a VMD domain has five digits", "10000:e1:00.0"),
    ("15:00:00.260 scheduler: placed job", None),
    ("12:10.5 is a time of day", None),
    ("link/ether 00:1b:21:aa:bb:cc brd ff:ff:ff:ff:ff:ff", None),
])
def test_an_address_is_found_in_every_form(text: str, address: str | None) -> None:
    assert read_log(text, "log")[0].address == address


def test_a_port_speaks_of_the_card_it_names() -> None:
    (line,) = read_log("pcieport 0000:00:07.0: AER: Uncorrectable error message received from 0000:2f:00.0", "log")
    assert (line.address, line.also) == ("0000:00:07.0", ("0000:2f:00.0",))


@pytest.mark.parametrize(("claim", "log", "address"), [
    ("a driver's own name", "nvme nvme5: pci function 0000:6a:00.0\nnvme nvme5: gone", "0000:6a:00.0"),
    ("the last card of that name", "nvme nvme5: pci function 0000:6a:00.0\nnvme nvme5: pci function 0000:6b:00.0\n"
     "nvme nvme5: gone", "0000:6b:00.0"),
    ("an accel node", "[drm] Initialized intel_vpu 1.0.0 for 0000:00:0b.0 on minor 0\n"
     "Failed to open file '/dev/accel/accel0': Permission denied", "0000:00:0b.0"),
    ("a node its driver names", "hailo 0000:01:00.0: Probing: Added board, /dev/hailo0\nopen /dev/hailo0 failed",
     "0000:01:00.0"),
    ("an Ascend device id", "[ascend] [d] [f 1] <k:1> Half probe finish, probe success. (dev_id=4; bdf=c1:00.0)\n"
     "rt: halDeviceOpen failed. device_id=4, drvRetCode=34.", "0000:c1:00.0"),
    ("an Ascend thread", "[  1.0] [ascend] [d] [f 1] <insmod:9:9> Probe driver IN. (bdf=81:00.0)\n"
     "[  1.1] [ascend] [ERROR] [d] [f 2] <insmod:9:9> Call ka_pci_request_regions failed. (ret=-16)", "0000:81:00.0"),
    ("a burst of NVRM lines", "[ 72.44] nvidia 0000:2f:00.0: enabling device (0000 -> 0003)\n"
     "[ 72.45] NVRM: No address space to allocate resized BAR1.", "0000:2f:00.0"),
    ("not a minute later", "[ 72.44] nvidia 0000:2f:00.0: enabling device (0000 -> 0003)\n"
     "[ 172.45] NVRM: No address space to allocate resized BAR1.", None),
    ("a name that its driver gives at the end", "habanalabs 0000:1a:00.0: Failed to initialize hl2. NOT usable !\n"
     "habanalabs hl2: Failed to communicate with Device CPU (CPU-CP timeout)", "0000:1a:00.0"),
    ("a name behind the address", "habanalabs 0000:33:00.0 accel2: Going to reset device\n"
     "ioctl on /dev/accel/accel2 failed", "0000:33:00.0"),
    ("what a command about a device printed", "$ cat /sys/bus/pci/devices/0000:00:1c.4/power/runtime_status\nsuspended",
     "0000:00:1c.4"),
    ("but not what the next one did", "$ cat /sys/bus/pci/devices/0000:00:1c.4/power/runtime_status\nsuspended\n"
     "$ uname -r\n6.12.0", None),
    ("a record of the firmware's", "[1.0] {1}[Hardware Error]:   device_id: 0000:3b:00.0\n"
     "[1.0] {1}[Hardware Error]:   section_type: PCIe error", "0000:3b:00.0"),
    ("another record", "[1.0] {1}[Hardware Error]:   device_id: 0000:3b:00.0\n"
     "[9.0] {2}[Hardware Error]:   section_type: PCIe error", None),
    ("nobody knows the name", "nvme nvme5: gone", None),
])
def test_a_name_is_tied_to_its_device_by_another_line(claim: str, log: str, address: str | None) -> None:
    assert settle(read_log(log, "log"))[-1].address == address, claim


@pytest.mark.parametrize("content", [
    FAULT.encode("utf-16"), b"\xef\xbb\xbf" + FAULT.encode(), FAULT.encode() + b" \xff\xfe", b"",
    b"\x00\x01\x02", b"{", b'{"dmesg": 3}', b'{"dmesg": [{"msg": 3}]}', b"[" * 5000, b"3,1,1,-;\\x", b"[ 1.0]",
])
def test_any_bytes_can_be_read(content: bytes) -> None:
    for line in read_log(content, "log"):
        assert isinstance(line.text, str)


def test_messages_that_a_console_put_behind_each_other_are_told_apart() -> None:
    glued = "[    5.110220] Bluetooth: hci0: no file    [  700.110220] pcieport 0000:16:02.0: pciehp: Slot(8): Link Up"
    first, second = read_log(glued, "log")
    assert (first.text, first.monotonic, first.address) == ("Bluetooth: hci0: no file", 5.11022, None)
    assert (second.monotonic, second.address, second.slot) == (700.11022, "0000:16:02.0", "8")
    assert (first.line, second.line) == (1, 1)
    (twice,) = read_log("[    9.000001] [    5.110220] Bluetooth: hci0: no file", "log")
    assert (twice.text, twice.monotonic) == ("Bluetooth: hci0: no file", 9.000001)


def test_a_torn_last_line_is_kept() -> None:
    assert [line.text for line in read_log("[ 1.0] whole\n[ 2.0] to", "log")] == ["whole", "to"]
    assert [line.text for line in read_log("[ 1.0] whole\n[ 2.", "log")] == ["whole", "[ 2."]


NINES = "9" * 5000
DEEP = "[" * 100_000


@pytest.mark.parametrize("text", [
    f"3,1,{'9' * 400},-;{FAULT}", f"{NINES},1,2,-;{FAULT}", f"3,{NINES},{NINES},-;{FAULT}",
    f"<{NINES}>[ 1.0] {FAULT}", f"[ {NINES}.0] {FAULT}", f"[ 1.{NINES}] {FAULT}",
    f"Sep {NINES} 08:41:11 node kernel: {FAULT}", f"[Tue Sep {NINES} 08:41:11 2023] {FAULT}",
    f"2023-09-19T08:41:11.{NINES}+02:00 node kernel: {FAULT}", f"0000-00-00T99:99:99+9999 node kernel: {FAULT}",
    *(json.dumps({"MESSAGE": FAULT, "PRIORITY": value, "_SOURCE_MONOTONIC_TIMESTAMP": value}) for value in (
        "inf", "nan", "-inf", "1e999", "9" * 400, int("9" * 400), math.inf, math.nan, [], {}, None, True)),
    *(json.dumps({"msg": FAULT, "pri": value, "time": value}) for value in ("inf", int("9" * 400), math.nan, [[]])),
    f'{{"MESSAGE": "{FAULT}", "PRIORITY": 1e999, "_SOURCE_MONOTONIC_TIMESTAMP": -1e999}}',
])
def test_a_number_that_is_none_leaves_its_line_readable(text: str) -> None:
    for line in read_log(text, "log"):
        assert line.text.endswith(FAULT)
        assert line.monotonic is None or math.isfinite(line.monotonic)
        assert line.priority is None or 0 <= line.priority <= 7
        seconds(line)
    assert read_log(text, "log")


@pytest.mark.parametrize("value", [
    DEEP, '{"a":' * 100_000, DEEP + "]" * 100_000, "[" * 900 + "]" * 900, "9" * 5000,
])
@pytest.mark.parametrize("key", ["MESSAGE", "_PID", "SYSLOG_IDENTIFIER", "_HOSTNAME", "_KERNEL_DEVICE", "dmesg", "x"])
def test_json_however_deep_harms_no_other_line(key: str, value: str) -> None:
    good = json.dumps({"MESSAGE": FAULT})
    deep = f'{{"{key}": {value}}}'
    for text in (f"{good}\n{deep}", f"{deep}\n{good}"):
        assert FAULT in [line.text for line in read_log(text, "log")]
    read_log(deep, "log")


@pytest.mark.parametrize("year", ["0000", "0001", "9999"])
def test_a_year_that_no_clock_knows_is_no_time_to_compare(year: str) -> None:
    (line,) = read_log(f"{year}-01-01T00:00:00 node kernel: {FAULT}", "log")
    seconds(line)
    assert line.text == FAULT


@pytest.mark.parametrize(("claim", "text"), [
    ("JSON among other lines", f"hello\n{json.dumps({'MESSAGE': FAULT})}\nbye"),
    ("indented JSON", f"  {json.dumps({'msg': FAULT})}"),
    ("JSON around a line of a log", json.dumps({"msg": f"[ 2211.118240] {FAULT}"})),
    ("indented", f"[ 1.0] a\n   [ 2211.118240] {FAULT}"),
    ("sequences of a terminal", f"[ 2211.118240] pcieport \x1b[1;31m{FAULT[9:20]}\x1b]0;t\x07{FAULT[20:]}\x1b[K"),
    ("zeros after a crash", f"{chr(0) * 30}[ 2211.118240] {FAULT}"),
    ("a serial console", f"[ 2211.118240] {FAULT}\r\r\n"),
])
def test_a_line_is_found_whatever_surrounds_it(claim: str, text: str) -> None:
    assert FAULT in [line.text for line in read_log(text, "log") if line.slot == "9"], claim


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_an_encoding_is_told_by_its_mark_or_its_zeros(encoding: str) -> None:
    assert [line.text for line in read_log(f"[ 2211.118240] {FAULT}\n".encode(encoding), "log")] == [FAULT]


def test_json_without_a_message_is_kept_as_it_is() -> None:
    assert [line.text for line in read_log('{"log": "boom"}', "log")] == ['{"log": "boom"}']

"""One failure in every form in which its log is kept and sent around: the same answer, and no line lost."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from hotplugctl.diagnose import diagnose
from hotplugctl.model import Machine
from hotplugctl.readers.archives import evidence
from hotplugctl.rules import load

LINES = (
    (20.100000, 6, "pcieport 0000:64:02.0: pciehp: Slot(9): Card present"),
    (20.100100, 6, "pcieport 0000:64:02.0: pciehp: Slot(9): Link Up"),
    (21.000000, 6, "usb 1-1: new high-speed USB device number 4 using xhci_hcd"),
    (22.438405, 3, "pcieport 0000:64:02.0: pciehp: Slot(9): Power fault"),
    (22.500000, 3, "pcieport 0000:64:02.0: pciehp: Slot(9): Link Down"),
)
BOOT = datetime(2026, 11, 29, 10, 0, 0, tzinfo=timezone.utc)
RULES, TAXONOMY, PROFILES = load.rules([]), load.taxonomy(), load.profiles([])


def at(seconds: float) -> datetime:
    return BOOT + timedelta(seconds=seconds)


def lined(form: Callable[[float, int, str], str]) -> str:
    return "".join(f"{form(*line)}\n" for line in LINES)


PLAIN = lined(lambda s, _, text: f"[{s:12.6f}] {text}")
JOURNAL_JSON = lined(lambda s, level, text: json.dumps({
    "MESSAGE": text, "PRIORITY": str(level), "SYSLOG_IDENTIFIER": "kernel", "_HOSTNAME": "zeus",
    "__REALTIME_TIMESTAMP": str(int(at(s).timestamp() * 1e6)), "_SOURCE_MONOTONIC_TIMESTAMP": str(int(s * 1e6))}))
CONSOLE = (
    "\r\nDebian GNU/Linux 12 zeus ttyS0\r\n\r\nzeus login: root\r\nPassword: \r\n"
    "[  \x1b[0;32mOK  \x1b[0m] Started \x1b[0;1;39mkubelet.service\x1b[0m - kubelet.\r\n"
    + PLAIN.replace("\n", "\r\n").replace("pciehp: Slot(9): Power", "pciehp: \x1b[31mSlot(9): Power")
    + "root@zeus:~# ls\r\nanaconda-ks.cfg\r\n"
)
FORMS: dict[str, str | bytes] = {
    "dmesg": PLAIN,
    "dmesg -r": lined(lambda s, level, text: f"<{level}>[{s:12.6f}] {text}"),
    "dmesg -x": lined(lambda s, level, text: f"kern  :{'info' if level == 6 else 'err':<6}: [{s:12.6f}] {text}"),
    "dmesg -T": lined(lambda s, _, text: f"[{at(s):%a %b %e %H:%M:%S %Y}] {text}"),
    "dmesg --time-format iso": lined(lambda s, _, text: f"{at(s):%Y-%m-%dT%H:%M:%S},{at(s):%f}+00:00 {text}"),
    "dmesg -J": json.dumps({"dmesg": [{"pri": level, "time": s, "msg": text} for s, level, text in LINES]}, indent=3),
    "kmsg": lined(lambda s, level, text: f"{level},{int(s * 10)},{int(s * 1e6)},-;{text}"),
    "journalctl -k": lined(lambda s, _, text: f"{at(s):%b %d %H:%M:%S} zeus kernel: {text}"),
    "journalctl -o short-iso": lined(lambda s, _, text: f"{at(s):%Y-%m-%dT%H:%M:%S}+0000 zeus kernel: {text}"),
    "journalctl -o short-precise": lined(lambda s, _, text: f"{at(s):%b %d %H:%M:%S.%f} zeus kernel: {text}"),
    "journalctl -o short-monotonic": lined(lambda s, _, text: f"[{s:12.6f}] zeus kernel: {text}"),
    "journalctl -o json": JOURNAL_JSON,
    "syslog": lined(lambda s, _, text: f"{at(s):%b %d %H:%M:%S} zeus kernel: [{s:12.6f}] {text}"),
    "serial console": CONSOLE,
    "mail": lined(lambda s, _, text: f"> [{s:12.6f}] {text}"),
    "CRLF": PLAIN.replace("\n", "\r\n"),
    "cut at both ends": PLAIN[30:-20] + "\n" + PLAIN.splitlines()[3][:40],
    "UTF-16": PLAIN.encode("utf-16"),
    "UTF-8 with a mark": b"\xef\xbb\xbf" + PLAIN.encode(),
    "Latin-1 between": PLAIN.encode().replace(b"usb 1-1", b"usb \xe9\xfc\xff"),
    "zeros between": PLAIN.encode().replace(b"usb 1-1", b"usb \0\0\0"),
    "gzip": gzip.compress(PLAIN.encode()),
    "torn gzip": gzip.compress(PLAIN.encode() * 400)[:-9],
}


def root_cause(path: Path) -> tuple[str | None, str | None]:
    found = evidence([str(path)])
    machine = Machine(host="x", devices=found.devices, ports=found.ports, logs=found.logs, gaps=found.gaps)
    root = diagnose(machine, RULES, TAXONOMY, PROFILES, live=False).root_cause
    return (root.id, root.address) if root is not None else (None, None)


@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_a_log_does_not_change_the_answer(tmp_path: Path, form: str) -> None:
    content = FORMS[form]
    path = tmp_path / "some.file"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert root_cause(path) == ("slot_power_fault", "0000:64:02.0")


@pytest.mark.parametrize("form", ["dmesg", "dmesg -J", "journalctl -o json", "serial console", "CRLF"])
def test_no_line_is_lost(tmp_path: Path, form: str) -> None:
    content = FORMS[form]
    path = tmp_path / "some.file"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    said = "\n".join(line.text for line in evidence([str(path)]).logs)
    assert [text for _, _, text in LINES if text not in re.sub(r"\x1b\[[0-9;]*m", "", said)] == []


OTHERS = {
    "ACL code": ("EZ9999: Inner Error!\n[ERROR] ASCENDCL(9120,python3):2026-03-04-03:11:07.482.402 "
                 "[log_inner.cpp:148]9188 ReportCallError: synchronize stream failed, runtime result = 507010\n"),
    "npu-smi": "dcmi module initialize failed. ret is -8020\n",
    "nvidia-smi": "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.129\n",
    "Xid": "[  100.0] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n",
    "Python traceback": (
        "Traceback (most recent call last):\n  File \"/opt/train.py\", line 12, in <module>\n"
        "    torch.npu.set_device(0)\nRuntimeError: Initialize:torch_npu/csrc/core/npu/sys_ctrl/npu_sys_ctrl.cpp:120 "
        "NPU error, error code is 507010\n"),
    "C++": (
        "terminate called after throwing an instance of 'std::runtime_error'\n"
        "  what():  CUDA error: unspecified launch failure\n"
        "[  100.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_the_words_of_runtimes_tools_and_programs_are_evidence(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "some.file"
    path.write_text(OTHERS[kind])
    assert root_cause(path)[0] is not None

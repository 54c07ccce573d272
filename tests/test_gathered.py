"""Folders and archives of many files: what is evidence in them is read, within bounds, and nothing else happens."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import tarfile
from pathlib import Path

import pytest

from hotplugctl.host import files
from hotplugctl.host.opening import open_host
from hotplugctl.model import Driver, Link, Unknown
from hotplugctl.readers import gathered, layouts
from hotplugctl.readers.archives import Evidence, evidence
from hotplugctl.readers.lspci import looks_like_lspci, read_lspci
from hotplugctl.readers.lspci_forms import usual_form
from hotplugctl.readers.sections import sections

from .test_cli import hotplugctl

DMESG = (
    "[    0.000000] Linux version 6.12.0 (gcc 12.2.0)\n"
    "[   21.100000] pcieport 0000:64:02.0: pciehp: Slot(9): Card present\n"
    "[   22.438405] pcieport 0000:64:02.0: pciehp: Slot(9): Power fault\n"
)
LSPCI = """\
3a:00.0 PCI bridge [0604]: Intel Corporation Device [8086:352a] (rev 04) (prog-if 00 [Normal decode])
\tBus: primary=3a, secondary=3b, subordinate=3b, sec-latency=0
\tCapabilities: [40] Express (v2) Root Port (Slot+), MSI 00
\t\tLnkCap:\tPort #5, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 32GT/s, Width x8 (downgraded)
3b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
\tPhysical Slot: 9
\tNUMA node: 1
\tRegion 0: Memory at 1c000000000 (64-bit, prefetchable) [size=16M]
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 32GT/s, Width x8 (downgraded)
\tKernel driver in use: nvidia
\tKernel modules: nouveau, nvidia
"""
# As of CANN 8: host side below debug/plog, device side below debug/device-N and run/device-N, the driver's below slog.
PLOG = (
    "[ERROR] RUNTIME(9120,python3):2026-03-04-03:11:07.482.260 [direct_hwts_engine.cc:407]9188 SyncTask:Device[3] lost "
    "heartbeat.\n"
    "[ERROR] RUNTIME(9120,python3):2026-03-04-03:11:07.482.391 [api_c_stream.cc:112]9188 rtStreamSynchronize:"
    "ErrCode=507010, desc=[lost heartbeat], InnerCode=0x711000b\n"
)
SLOG = "[ERROR] TSDUMP(2310,log-daemon):1970-01-01-08:00:41.611.020 [dump.c:88]ts heartbeat lost, devid=3\n"


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def packed(folder: Path, mode: str) -> Path:
    dest = folder.parent / f"sent-{mode}.tar"
    with tarfile.open(dest, f"w:{mode}" if mode else "w") as tar:  # type: ignore[call-overload]
        tar.add(folder, folder.name)
    return dest


@pytest.fixture
def sosreport(tmp_path: Path) -> Path:
    """As sos 4 lays it out, with what is not evidence beside it."""
    root = write(tmp_path / "sosreport-zeus-2026-11-29-abcdefg", {
        "sos_commands/pci/lspci_-nnvv": LSPCI, "sos_commands/pci/lspci_-tv": "-[0000:3a]---00.0-[3b]----00.0\n",
        "sos_commands/kernel/dmesg": DMESG, "sos_commands/kernel/dmesg_-T": "[Sun Nov 29 10:00:01 2026] the same\n",
        "sos_commands/kernel/lsmod": "nvidia 1 0\n", "sos_commands/host/hostname": "zeus\n",
        "sos_commands/logs/journalctl_--no-pager_--boot": (
            "Nov 29 10:00:01 zeus kernel: pcieport 0000:64:02.0: pciehp: Slot(9): Power fault\n"
            "Nov 29 10:00:02 zeus kubelet[812]: E1129 device plugin nvidia.com/gpu: endpoint stopped\n"),
        "sos_commands/nvidia/nvidia-smi": "No devices were found\n",
        "var/log/npu/slog/device-3/device-3_20260304.log": SLOG,
        "var/log/messages": "Nov 20 10:00:01 zeus kernel: old\n",
        "etc/passwd": "root:x:0:0:error failed Slot(9): Power fault\n", "proc/version": "Linux version 6.12.0\n",
        "proc/sys/kernel/osrelease": "6.12.0\n", "sys/module/nvidia/version": "535.129.03\n",
        "sos_logs/sos.log": "error\n", "sos_reports/manifest.json": '{"start_time": "2026-11-29T10:00:05.000000"}',
    })
    (root / "lspci").symlink_to("sos_commands/pci/lspci_-nnvv")
    (root / "dmesg").symlink_to("sos_commands/kernel/dmesg")
    return root


def sources(found: Evidence) -> list[str]:
    return sorted({line.source for line in found.logs})


@pytest.mark.parametrize("mode", ["folder", "", "gz", "xz", "bz2"])
def test_a_sosreport_gives_its_logs_and_its_listing_once(sosreport: Path, mode: str) -> None:
    found = evidence([str(sosreport if mode == "folder" else packed(sosreport, mode))])
    assert sources(found) == [
        "sos_commands/kernel/dmesg", "sos_commands/logs/journalctl_--no-pager_--boot", "sos_commands/nvidia/nvidia-smi",
        "var/log/npu/slog/device-3/device-3_20260304.log",
    ]
    faults = [line for line in found.logs if "Power fault" in line.text]
    assert [(line.source, line.line) for line in faults] == [("sos_commands/kernel/dmesg", 3)], (
        "told twice, counted once")
    assert [line.line for line in found.logs if "kubelet" in line.text] == [2]
    (card,) = found.devices
    assert (card.address, card.slot, isinstance(card.link, Link)) == ("0000:3b:00.0", "9", True)


def test_the_journal_counts_where_the_kernels_buffer_has_lost_its_beginning(sosreport: Path) -> None:
    (sosreport / "sos_commands/kernel/dmesg").write_text("[ 9000.0] something late\n")
    found = evidence([str(sosreport)])
    assert ["journalctl" in line.source for line in found.logs if "Power fault" in line.text] == [True]


@pytest.mark.parametrize("mode", ["folder", "gz", "xz"])
def test_a_sosreport_is_a_machine_of_which_a_part_is_known(sosreport: Path, mode: str) -> None:
    root = str(sosreport if mode == "folder" else packed(sosreport, mode))
    data = hotplugctl("probe", "3b:00.0", "--root", root, "--json")
    card = data.data
    assert (card["profile"], card["model"], card["numa_node"]) == ("nvidia", "H100 SXM5 80GB", 1)
    assert (card["driver"]["name"], card["link"]["width"], card["link"]["limit_width"]) == ("nvidia", 8, 16)
    assert card["upstream"][-1]["address"] == "0000:3a:00.0"
    assert card["iommu_group"]["kind"] == "not_captured", "never said to be absent"
    listed = hotplugctl("list", "--root", root, "--json")
    assert [row["address"] for row in listed.data] == ["0000:3b:00.0"]
    host = open_host(root)
    assert (host.name, host.now() > 1.7e9, host.run(("nvidia-smi",), 1).stdout) == (  # type: ignore[union-attr]
        "zeus", True, "No devices were found\n")
    assert isinstance(host.log("kernel"), str)
    assert isinstance(host.text("/etc/shadow"), Unknown)
    assert hotplugctl("diagnose", "--root", root, "--json").data["root_cause"]["id"] == "slot_power_fault"


@pytest.mark.parametrize("mode", ["folder", "gz"])
def test_an_ascend_log_tree_is_read_host_and_device_side(tmp_path: Path, mode: str) -> None:
    root = write(tmp_path / "log", {
        "debug/plog/plog-9120_20260304031107482.log": PLOG, "debug/device-3/device-9120_20260304031108.log": SLOG,
        "run/plog/plog-9120_1.log.gz": gzip.compress(b"[EVENT] GE(9120,python3):2026-03-04-03:10:00.000.000 start\n"),
        "operation/lib.so": "no", "notes.md": "error", "core.bin": b"\x7fELF\0\0\0\0" * 600,
    })
    found = evidence([str(root if mode == "folder" else packed(root, mode))])
    assert sources(found) == ["debug/device-3/device-9120_20260304031108.log",
                              "debug/plog/plog-9120_20260304031107482.log", "run/plog/plog-9120_1.log.gz"]
    assert [line.time for line in found.logs if "ErrCode=507010" in line.text] == ["2026-03-04T03:11:07.482000"]
    told = hotplugctl("diagnose", "--from", str(root), "--json")
    assert told.data["verdict"] == "fault"


def hostile(tmp_path: Path) -> Path:
    dest = tmp_path / "hostile.tar.gz"
    with tarfile.open(dest, "w:gz") as tar:
        for name in ("../../../../escaped.log", "/absolute.log", "logs/./../inner.log"):
            member = tarfile.TarInfo(name)
            member.size = len(DMESG)
            tar.addfile(member, io.BytesIO(DMESG.encode()))
        for kind, name in ((tarfile.SYMTYPE, "passwd.log"), (tarfile.LNKTYPE, "hard.log"), (tarfile.CHRTYPE,
        "null.log"),
                           (tarfile.FIFOTYPE, "pipe.log")):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member)
    return dest


def test_a_hostile_archive_is_labels_and_text_and_nothing_more(tmp_path: Path) -> None:
    before = sorted(tmp_path.parent.rglob("*.log"))
    found = evidence([str(hostile(tmp_path))])
    assert sources(found) == ["absolute.log", "escaped.log", "logs/inner.log"]
    assert sorted(tmp_path.parent.rglob("*.log")) == before


def test_links_pipes_and_devices_in_a_folder_are_passed_over(tmp_path: Path) -> None:
    root = write(tmp_path / "logs", {"dmesg.log": DMESG})
    (tmp_path / "secret.log").write_text("[ 1.0] outside")
    (root / "out.log").symlink_to(tmp_path / "secret.log")
    (root / "loop").symlink_to(root)
    (root / "null.log").symlink_to("/dev/zero")
    os.mkfifo(root / "pipe.log")
    assert sources(evidence([str(root)])) == ["dmesg.log"]


def test_bombs_are_refused_and_what_is_too_much_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = tmp_path / "bomb.tar.xz"
    with lzma.open(bomb, "wb") as out, tarfile.open(fileobj=out, mode="w|") as tar:  # type: ignore[call-overload]
        member = tarfile.TarInfo("zeros.log")
        member.size = 200 << 20
        tar.addfile(member, io.BytesIO(bytes(member.size)))
    good = write(tmp_path / "good", {"dmesg.log": DMESG})
    (gap,) = evidence([str(bomb), str(good)]).gaps
    assert "times its size: refused" in gap.reason
    monkeypatch.setattr(gathered, "MOST_MEMBER", 1 << 16)
    inner = write(tmp_path / "inner", {
        "zip.log.gz": gzip.compress(b"[ 1.0] x\n" * 40_000),
        "long.log": "[ 1.0] begin\n" + "[ 2.0] y\n" * 40_000 + "[ 3.0] end\n",
    })
    found = evidence([str(inner)])
    assert sorted(gap.reason for gap in found.gaps) == [
        "larger than 0 MiB: its end was read", "unpacks to more than 0 MiB: its beginning was read"]
    assert {"end", "x"} <= {line.text for line in found.logs}
    monkeypatch.setattr(gathered, "MOST_READ", 3)
    many = write(tmp_path / "many", {f"{n}.log": DMESG for n in range(9)})
    for path in (many, packed(many, "gz")):
        (gap,) = evidence([str(path)]).gaps
        assert gap.reason.startswith("6 more files in it were not read")


@pytest.mark.parametrize("mode", ["gz", "xz", "bz2", ""])
def test_an_archive_cut_short_gives_what_came_before(sosreport: Path, tmp_path: Path, mode: str) -> None:
    write(sosreport, {"zz/filler.log": os.urandom(400_000).hex()})
    whole = packed(sosreport, mode).read_bytes()
    torn = tmp_path / "torn.tar"
    torn.write_bytes(whole[:-(len(whole) // 8)])
    found = evidence([str(torn), str(write(tmp_path / "good", {"a.log": DMESG}))])
    assert any("damaged" in gap.reason for gap in found.gaps)
    assert mode == "bz2" or "sos_commands/kernel/dmesg" in sources(found)


def test_what_fills_a_sosreport_and_is_no_text_is_not_kept(sosreport: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(sosreport, {"var/log/journal/0123/system.journal": b"LPKSHHRH" + bytes(3 << 20)})
    monkeypatch.setattr(files, "MAX_ARCHIVE_BYTES", 1 << 20)
    assert open_host(str(packed(sosreport, "gz"))).name == "zeus"


def test_a_binary_journal_is_named_with_the_command_that_makes_it_text(tmp_path: Path) -> None:
    root = write(tmp_path / "logs", {"system.journal": b"LPKSHHRH" + bytes(300), "dmesg.log": DMESG})
    (gap,) = evidence([str(root)]).gaps
    assert "journalctl --file system.journal -o json" in gap.reason


@pytest.mark.parametrize("text", [DMESG.encode("utf-16"), DMESG.replace("\n", "\r\n").encode(),
    DMESG.replace("pcieport", "\x1b[31mpcieport\x1b[0m").encode()])
def test_encodings_line_ends_and_colours_do_not_matter(tmp_path: Path, text: bytes) -> None:
    found = evidence([str(write(tmp_path / "logs", {"dmesg.log": text}))])
    assert [line.slot for line in found.logs if "Power fault" in line.text] == ["9"]


NVIDIA = "NVIDIA Corporation"
HEADS = {
    "-n": "3b:00.0 0302: 10de:2330 (rev a1)", "-nD": "0000:3b:00.0 0302: 10de:2330 (rev a1)",
    "-mm": f'3b:00.0 "3D controller" "{NVIDIA}" "GH100 [H100 SXM5 80GB]" -ra1 "{NVIDIA}" "Device 16c1"',
    "-mmnn": f'3b:00.0 "3D controller [0302]" "{NVIDIA} [10de]" "GH100 [H100] [2330]" -ra1 "x [10de]" "y [16c1]"',
    "-mmn": '3b:00.0 "0302" "10de" "2330" -ra1 "10de" "16c1"',
    "-vmm": f"Slot:\t3b:00.0\nClass:\t3D controller\nVendor:\t{NVIDIA}\nDevice:\tGH100 [H100 SXM5 80GB]\nRev:\ta1\n"
            "Driver:\tnvidia\nModule:\tnvidia\nNUMANode:\t1\n\n"
            "Slot:\t3c:00.0\nClass:\tEthernet controller\nVendor:\tIntel\nDevice:\tX",
    "-vmmnn": f"Slot:\t3b:00.0\r\nClass:\t3D controller [0302]\r\nVendor:\t{NVIDIA} [10de]\r\n"
              "Device:\tGH100 [2330]\r\n",
    "-vmmn": "Slot:\t0000:3b:00.0\nClass:\t0302\nVendor:\t10de\nDevice:\t2330\nPhySlot:\t9\nIOMMUGroup:\t27\n",
}


@pytest.mark.parametrize("form", HEADS)
def test_every_form_of_lspci_tells_the_same_card(form: str) -> None:
    assert looks_like_lspci(HEADS[form])
    card = read_lspci(HEADS[form], "lspci").devices[0]
    assert (card.address, card.vendor_id, card.class_) == ("0000:3b:00.0", "10de", "030200")
    if "n" in form:
        assert card.device_id == "2330"
    if form == "-vmm":
        assert isinstance(card.driver, Driver)
        assert (card.driver.name, card.numa_node) == ("nvidia", 1)


def test_the_form_that_people_see_stays_as_it_is() -> None:
    assert usual_form(LSPCI) == LSPCI
    assert usual_form(DMESG) == DMESG


RULE = "_" * 44
REPORT = f"""\
{RULE}

Start of NVIDIA bug report log file.  Please include this file, along
with a detailed description of your problem.

nvidia-bug-report.sh Version: 31831145

Date: Thu Oct 27 08:50:11 2022
uname: Linux zeus 6.0.1 #1 SMP x86_64 GNU/Linux

{RULE}

*** /var/log/Xorg.0.log
*** ls: -rw-r--r-- 1 root root 1 2022-10-27 20:48:36.3 -0300 /var/log/Xorg.0.log
[    21.4] (EE) Failed to load module "x" (module does not exist, 0)

{RULE}

/usr/bin/lspci -d "10de:*" -v -xxx

3b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
\tKernel driver in use: nvidia
HEX
{RULE}

/usr/bin/lspci -nn

3a:00.0 PCI bridge [0604]: Intel Corporation Device [8086:352a] (rev 04)
3b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)

{RULE}

Scanning kernel log files for NVIDIA kernel messages:

  journalctl -b -0:
Oct 27 20:48:40 zeus kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.
{RULE}

dmesg:

[    0.000000] Linux version 6.0.1
[    5.1] pci 0000:3b:00.0: [10de:2330] type 00 class 0x030200
[    6.1] nvidia 0000:3b:00.0: enabling device (0140 -> 0142)
[    7.1] a
[   30.1] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
[   30.2] NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.
{RULE}

/usr/bin/nvidia-smi --query

Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error
"""


def bug_report(config: bytes = bytes(range(64))) -> str:
    rows = "".join(f"{at:02x}: {config[at:at + 16].hex(' ')}\n" for at in range(0, len(config), 16))
    return REPORT.replace("HEX\n", rows)


def test_a_bug_report_is_read_part_by_part(tmp_path: Path) -> None:
    path = tmp_path / "nvidia-bug-report.log.gz"
    path.write_bytes(gzip.compress(bug_report().encode()))
    found = evidence([str(path)])
    assert [title.title for title in sections(bug_report())] == [
        '/usr/bin/lspci -d "10de:*" -v -xxx', "/usr/bin/lspci -nn", "dmesg:", "/usr/bin/nvidia-smi --query"]
    (card,) = found.devices
    assert (card.device_id, isinstance(card.driver, Driver)) == ("2330", True), "each listing tells a part"
    xids = [line for line in found.logs if "Xid" in line.text]
    assert [bug_report().splitlines()[(line.line or 0) - 1][:8] for line in xids] == ["[   30.1"]
    told = hotplugctl("diagnose", "--from", str(path), "--json").data
    assert (told["verdict"], told["root_cause"]["address"]) == ("fault", "0000:3b:00.0")


def test_layouts_name_the_first_that_is_there() -> None:
    names = ["top/sos_commands/logs/journalctl_--no-pager", "top/sos_commands/logs/journalctl_--list-boots",
    "top/etc/x"]
    assert layouts.wanted(names) == ("top/sos_commands/logs/journalctl_--no-pager",)


FAULT = b"[ 1.0] pcieport 0000:3a:00.0: pciehp: Slot(3): Power fault\n"


def archive_of(path: Path, name: str, content: bytes) -> Evidence:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    with tarfile.open(path, "w") as archive:
        archive.addfile(member, io.BytesIO(content))
    return evidence([str(path)])


def test_a_packed_member_of_several_parts_is_read_to_its_end(tmp_path: Path) -> None:
    parts = gzip.compress(b"[ 0.5] nothing\n") + gzip.compress(FAULT)
    read = archive_of(tmp_path / "a.tar", "var/log/kern.log.gz", parts)
    assert [line.slot for line in read.logs] == [None, "3"]
    assert read.gaps == ()


def test_a_packed_member_that_is_cut_says_so(tmp_path: Path) -> None:
    whole = gzip.compress(FAULT + os.urandom(3000).hex().encode())
    read = archive_of(tmp_path / "a.tar", "var/log/kern.log.gz", whole[:-200])
    assert read.logs[0].slot == "3"
    assert any("ends in the middle" in gap.reason for gap in read.gaps)


def test_a_header_that_promises_more_than_any_disk_holds_ends(tmp_path: Path) -> None:
    path = tmp_path / "huge.tar"
    member = tarfile.TarInfo("var/log/kern.log")
    member.size = 1 << 80
    path.write_bytes(member.tobuf(tarfile.GNU_FORMAT) + FAULT.ljust(512, b"\0") + b"\0" * 1024)
    result = hotplugctl("diagnose", "--from", str(path))
    assert "ends before what it promises" in result.out + result.err

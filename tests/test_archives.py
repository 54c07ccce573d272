"""What people send, told apart by content: lspci text, logs, compressed, broken, refused."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hotplugctl.errors import Exit, HotplugError
from hotplugctl.model import Driver, Link, SlotControl, State, Unknown
from hotplugctl.readers import archives
from hotplugctl.readers.archives import evidence
from hotplugctl.readers.lspci import Listing, looks_like_lspci, read_lspci

DMESG = "[ 1.0] pcieport 0000:64:02.0: pciehp: Slot(9): Power fault\n"
LSPCI = """\
3a:00.0 PCI bridge: Intel Corporation Device 352a (rev 04) (prog-if 00 [Normal decode])
\tBus: primary=3a, secondary=3b, subordinate=3b, sec-latency=0
\tCapabilities: [40] Express (v2) Root Port (Slot+), MSI 00
\t\tLnkCap:\tPort #5, Speed 32GT/s, Width x8, ASPM not supported
\t\tLnkSta:\tSpeed 16GT/s (downgraded), Width x8 (ok)
\t\t\tTrErr- Train- SlotClk+ DLActive+ BWMgmt- ABWMgmt-
\t\tSltCap:\tAttnBtn- PwrCtrl+ MRL- AttnInd+ PwrInd+ HotPlug+ Surprise+
\t\t\tSlot #9, PowerLimit 75W; Interlock- NoCompl-
\t\tSltCtl:\tEnable: AttnBtn- PwrFlt+ MRL- PresDet+ CmdCplt+ HPIrq+ LinkChg+
\t\t\tControl: AttnInd Off, PwrInd On, Power- Interlock-
\t\tSltSta:\tStatus: AttnBtn- PowerFlt- MRL- CmdCplt- PresDet+ Interlock-
\tKernel driver in use: pcieport
3b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
\tPhysical Slot: 9
\tNUMA node: 1
\tIOMMU group: 27
\tRegion 0: Memory at 1c000000000 (64-bit, prefetchable) [size=16M]
\tRegion 2: Memory at <unassigned> (64-bit, prefetchable)
\tRegion 5: I/O ports at 4000 [disabled] [size=128]
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 16GT/s (downgraded), Width x4 (downgraded)
\tCapabilities: [100 v1] Device Serial Number 00-02-c9-03-00-fe-40-12
\tKernel driver in use: nvidia
\tKernel modules: nouveau, nvidia
"""


def listing(text: str) -> Listing:
    return read_lspci(text, "lspci.txt")


def test_a_verbose_listing_tells_of_card_and_port() -> None:
    found = listing(LSPCI)
    (card,), (port,) = found.devices, found.ports
    assert (card.address, card.vendor_id, card.device_id, card.class_) == ("0000:3b:00.0", "10de", "2330", "030200")
    assert (card.serial, card.numa_node, card.iommu_group, card.slot) == ("00-02-c9-03-00-fe-40-12", 1, 27, "9")
    assert isinstance(card.driver, Driver)
    assert card.driver.name == "nvidia"
    assert isinstance(card.link, Link)
    assert (card.link.width, card.link.max_width, card.link.limit_width) == (4, 16, 8), "the port is the narrower end"
    assert isinstance(card.bars, tuple)
    assert [(b.index, b.size, b.kind, b.assigned) for b in card.bars][::2] == [
        (0, 16 << 20, "mem64pref", True), (5, 128, "io", True),
    ]
    assert card.bars[1].assigned is False
    assert (port.secondary_bus, port.subordinate_bus, port.link_active) == (0x3B, 0x3B, True)
    assert isinstance(port.slot, SlotControl)
    assert (port.slot.number, port.slot.presence, port.slot.power_off, port.slot.latch_open) == (9, True, False, None)


@pytest.mark.parametrize(("claim", "text"), [
    ("plain", "3b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)"),
    ("with -D", "0000:3b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)"),
    ("with -nn", "3b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)"),
])
def test_every_verbosity_is_known_and_what_it_lacks_is_not_captured(claim: str, text: str) -> None:
    assert looks_like_lspci(text)
    (card,) = listing(text).devices
    assert (card.address, card.vendor_id, card.class_) == ("0000:3b:00.0", "10de", "030200"), claim
    assert card.model == "NVIDIA Corporation GH100 [H100 SXM5 80GB]"
    assert isinstance(card.driver, Unknown)
    assert isinstance(card.link, Unknown)
    assert isinstance(card.bars, Unknown)


@pytest.mark.parametrize("mark", ["(rev ff) (prog-if ff)", "(rev ff)"])
def test_a_function_that_reads_all_ones_does_not_answer(mark: str) -> None:
    text = f"9f:00.0 Processing accelerators: AMD Device 74a1 {mark}\n\t!!! Unknown header type 7f\n"
    assert listing(text).devices[0].state is State.FAILED
    bridge = f"af:00.0 PCI bridge: PLX Technology, Inc. PEX 8749 {mark}\n\t!!! Unknown header type 7f\n"
    assert listing(bridge).ports[0].answering is False


def test_a_listing_that_shows_drivers_shows_who_has_none() -> None:
    text = "3b:00.0 3D controller: NVIDIA Corporation GH100\n\tKernel modules: nouveau, nvidia\n"
    assert listing(text).devices[0].driver is None


def test_a_listing_out_of_order_does_not_show_who_has_no_driver() -> None:
    text = "\tKernel driver in use: nvidia\n65:00.0 3D controller: NVIDIA Corporation TU104GL [Tesla T4]\n"
    (card,) = listing(f"{text}\tKernel modules: nouveau\n").devices
    assert isinstance(card.driver, Unknown), "its own line may be the one above it"


def test_other_text_is_no_listing() -> None:
    assert not looks_like_lspci(DMESG)
    assert not looks_like_lspci("15:00:00.260 scheduler: placed job j-118\n12:10.55 Processing: x")


@pytest.mark.parametrize(("name", "pack"), [
    ("plain", bytes), ("gzip", gzip.compress), ("xz", lzma.compress), ("bzip2", bz2.compress),
])
def test_compression_is_told_by_content(tmp_path: Path, name: str, pack) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "what.bin"
    path.write_bytes(pack(DMESG.encode()))
    assert [line.slot for line in evidence([str(path)]).logs] == ["9"], name


def test_zstd_is_read_or_said_to_need_a_module(tmp_path: Path) -> None:
    path = tmp_path / "dmesg.zst"
    path.write_bytes(bytes.fromhex("28b52ffd042029010061620a"))
    (tmp_path / "dmesg.txt").write_text(DMESG)
    found = evidence([str(tmp_path / "dmesg.txt"), str(path)])
    assert all(gap.path == str(path) for gap in found.gaps)


def test_files_together_are_one_case(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(DMESG)
    (tmp_path / "b").write_text(LSPCI)
    (tmp_path / "c").write_text("Sep 19 08:41:11 node-a kernel: hello\n")
    found = evidence([str(tmp_path / name) for name in "abc"])
    assert [line.source for line in found.logs] == ["a", "c"]
    assert [device.address for device in found.devices] == ["0000:3b:00.0"]
    assert found.hosts == ("node-a",)


def test_an_unusable_file_beside_a_usable_one_is_a_gap(tmp_path: Path) -> None:
    (tmp_path / "good").write_text(DMESG)
    (tmp_path / "empty").write_text("\n \n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "torn.gz").write_bytes(gzip.compress(DMESG.encode() * 100)[:12])
    found = evidence([str(tmp_path / name) for name in ("good", "empty", "folder", "torn.gz", "none")])
    assert len(found.logs) == 1
    assert [Path(gap.path).name for gap in found.gaps] == ["empty", "folder", "torn.gz", "none"]


def test_a_torn_archive_gives_what_came_before_the_tear(tmp_path: Path) -> None:
    path = tmp_path / "torn.gz"
    lines = "".join(f"[ {i}.0] {os.urandom(600).hex()}\n" for i in range(4000))
    path.write_bytes(gzip.compress(lines.encode())[:-2000])
    assert len(evidence([str(path)]).logs) > 100


def test_nothing_usable_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    with pytest.raises(HotplugError) as caught:
        evidence([str(tmp_path / "empty"), str(tmp_path / "none")])
    assert caught.value.exit is Exit.UNKNOWN
    assert "the file is empty" in caught.value.why


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_nothing_permitted_is_denied(tmp_path: Path) -> None:
    path = tmp_path / "closed"
    path.write_text(DMESG)
    path.chmod(0)
    with pytest.raises(HotplugError) as caught:
        evidence([str(path)])
    assert caught.value.exit is Exit.DENIED


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.xz"
    path.write_bytes(lzma.compress(b" " * (64 << 20)))
    (tmp_path / "good").write_text(DMESG)
    (gap,) = evidence([str(path), str(tmp_path / "good")]).gaps
    assert "times its size: refused" in gap.reason
    monkeypatch.setattr(archives, "MOST_BYTES", 1 << 20)
    big = tmp_path / "big"
    big.write_text(DMESG * 30_000)
    (gap,) = evidence([str(big), str(tmp_path / "good")]).gaps
    assert "larger than 1 MiB" in gap.reason


def test_a_bundle_is_left_to_the_host(tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / "manifest.json").write_text('{"schema": "hotplugctl.bundle/1"}')
    packed = tmp_path / "bundle.tar.gz"
    with tarfile.open(packed, "w:gz") as tar:
        member = tarfile.TarInfo("manifest.json")
        tar.addfile(member, io.BytesIO())
    assert evidence([str(folder), str(packed)]).bundles == (str(folder), str(packed))


def test_a_pipe_can_be_read(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, gzip.compress(DMESG.encode()))
    os.close(write)
    assert len(evidence([f"/dev/fd/{read}"]).logs) == 1
    os.close(read)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
def test_one_wrong_bit_anywhere_in_a_compressed_file_costs_at_most_that_file(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    plain, packed = tmp_path / "dmesg.txt", tmp_path / "more"
    plain.write_text(DMESG)
    whole = compress(DMESG.encode() * 20)
    for bit in range(len(whole) * 8):
        wrong = bytearray(whole)
        wrong[bit // 8] ^= 1 << bit % 8
        packed.write_bytes(wrong)
        assert evidence([str(plain), str(packed)]).logs
    packed.write_bytes(whole[:len(whole) // 2])
    assert evidence([str(plain), str(packed)]).logs


def test_a_pipe_that_nobody_writes_to_is_a_gap_and_is_not_waited_for(tmp_path: Path) -> None:
    pipe, plain = tmp_path / "pipe", tmp_path / "dmesg.txt"
    os.mkfifo(pipe)
    plain.write_text(DMESG)
    (gap,) = evidence([str(pipe), str(plain)]).gaps
    assert (gap.path, "pipe" in gap.reason) == (str(pipe), True)


def test_a_file_that_has_nothing_now_is_a_gap_and_is_not_waited_for(tmp_path: Path) -> None:
    """As /proc/kmsg: regular by its mode, and a read of it waits. A pipe's end stands in for it."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    plain = tmp_path / "dmesg.txt"
    plain.write_text(DMESG)
    (gap,) = evidence([f"/dev/fd/{read}", str(plain)]).gaps
    assert gap.reason == "nothing to read in it now"
    os.close(read)
    os.close(write)


def test_a_pipe_that_was_handed_over_is_waited_for() -> None:
    read, write = os.pipe()

    def write_later() -> None:
        for part in (DMESG[:9], DMESG[9:]):
            os.write(write, part.encode())
        os.close(write)

    late = threading.Timer(0.1, write_later)
    late.start()
    assert [line.text for line in evidence([f"/proc/self/fd/{read}"]).logs] == [DMESG[7:].strip()]
    late.join()
    os.close(read)


def test_a_dash_is_the_standard_input() -> None:
    read, write = os.pipe()
    os.write(write, DMESG.encode())
    os.close(write)
    before = os.dup(0)
    try:
        os.dup2(read, 0)
        assert [line.source for line in evidence(["-"]).logs] == ["stdin"]
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(read)


NINES = "9" * 5000


@pytest.mark.parametrize("line", [
    "Kernel driver in use apex", "Kernel modules", "Kernel driver in use:", f"NUMA node: {NINES}",
    f"IOMMU group: {NINES}", f"Region 0: Memory at {NINES} (64-bit, prefetchable) [size={NINES}M]",
    f"LnkCap: Port #0, Speed {NINES}GT/s, Width x{NINES}", f"LnkSta: Speed 1.2.3GT/s, Width x{NINES}",
    "LnkSta: Speed ..GT/s, Width x4, LnkCap: Speed 1..2GT/s, Width x4", f"Slot #{NINES}, PowerLimit {NINES}W",
    "Slot #1, PowerLimit 1.2.3W", "SltCap: AttnBtn+", "SltSta: Status: PresDet+",
    f"Bus: primary={NINES}, secondary={NINES}, subordinate={NINES}",
])
@pytest.mark.parametrize("head", ["3a:00.0 PCI bridge: Intel", "3b:00.0 3D controller: NVIDIA Corporation GH100"])
def test_a_listing_with_a_broken_line_is_half_understood(head: str, line: str) -> None:
    found = listing(f"{head}\n\t{line}\n\tPhysical Slot: 9\n")
    assert len(found.devices) + len(found.ports) == 1


def test_a_driver_that_cannot_be_read_is_not_called_missing() -> None:
    lines = "\tKernel driver in use apex\n\tKernel modules: apex\n"
    (card,) = listing(f"3b:00.0 System peripheral: Global Unichip\n{lines}").devices
    assert isinstance(card.driver, Unknown)

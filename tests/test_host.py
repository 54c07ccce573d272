"""Roots: nothing outside a tree is read, and a bundle gives back exactly what was answered when it was captured."""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
from pathlib import Path

import pytest

from hotplugctl import capture, look, probe
from hotplugctl.errors import Exit, HotplugError
from hotplugctl.host import Host, Sought
from hotplugctl.host.files import Directory, load_tar, resolve
from hotplugctl.host.live import Live
from hotplugctl.host.opening import open_host
from hotplugctl.host.recorder import Recorder
from hotplugctl.host.redact import Redactor, redactor_for
from hotplugctl.host.redacted import Redacted
from hotplugctl.model import Kind, Unknown
from hotplugctl.output.documents import plain
from hotplugctl.readers.hexdump import hex_dump

from .machine import MachineTree


def test_links_are_followed_inside_the_root_and_never_out_of_it(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "sys").mkdir()
    (root / "etc/name").write_text("inside")
    (tmp_path / "secret").write_text("outside")
    (root / "absolute").symlink_to("/etc/name")
    (root / "climbs").symlink_to("../../../../etc/name")
    (root / "escapes").symlink_to(str(tmp_path / "secret"))
    (root / "folder").symlink_to("/etc")
    (root / "loop").symlink_to("loop")
    host = open_host(str(root))
    assert host.text("/absolute") == host.text("/climbs") == host.text("/folder/name") == "inside"
    assert host.text("/escapes") is None
    assert host.text("/../../secret") is None
    assert isinstance(host.text("/loop"), Unknown)
    assert host.real("/folder/name") == "/etc/name"


def test_a_pipe_or_device_in_a_tree_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    os.mkfifo(tmp_path / "sys/pipe")
    started = time.monotonic()
    assert isinstance(open_host(str(tmp_path)).text("/sys/pipe"), Unknown)
    assert time.monotonic() - started < 1


def test_many_directories_do_not_use_up_descriptors(tmp_path: Path) -> None:
    for n in range(300):
        (tmp_path / f"d{n}").mkdir()
        (tmp_path / f"d{n}/f").write_text(str(n))
    store = Directory(str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    assert [store.read(f"/d{n}/f", 10) for n in range(300)] == [str(n).encode() for n in range(300)]
    assert len(os.listdir("/proc/self/fd")) - before <= Directory.OPEN_DIRECTORIES


def test_links_that_never_end_are_an_error_not_a_loop() -> None:
    links = {"/a": "/b/x", "/b": "/a"}
    with pytest.raises(OSError, match="Too many levels"):
        resolve("/a/x", links.get, {})


def captured(machine: MachineTree, dest: Path, *, redacted: bool = True) -> Host:
    """Capture the machine as `probe --capture` does, and open the bundle."""
    host: Host = machine.host
    if redacted:
        host = Redacted(host, Redactor(b"key", ("m1",)))
    recorder = Recorder(host, "test")
    seen = look.look(recorder, machine.look().settings, machine.profiles)
    probe.machine(seen, close=True)
    capture.superset(recorder)
    recorder.save(str(dest), capture.kept(seen))
    return open_host(str(dest))


@pytest.mark.parametrize("name", ["bundle", "bundle.tar.gz", "bundle.tar"])
@pytest.mark.parametrize("redacted", [True, False])
def test_a_bundle_answers_as_the_machine_did(machine: MachineTree, tmp_path: Path, name: str, redacted: bool) -> None:
    machine.port()
    machine.card(serial=0x001122FFFE334455, serial_number="SN-12345678")
    machine.port("0000:00:02.0", slot="2", bus=2, present=False)
    machine.kmsg("labaccel 0000:01:00.0: serial SN-12345678 up")
    host: Host = machine.host
    bundle = captured(machine, tmp_path / name, redacted=redacted)
    if redacted:
        host = Redacted(host, Redactor(b"key", ("m1",)))
    live = probe.machine(look.look(host, machine.look().settings, machine.profiles), close=True)
    again = probe.machine(look.look(bundle, machine.look().settings, capture.profiles_of(bundle)), close=True)
    assert plain(again.devices) == plain(live.devices)
    assert plain(again.slots) == plain(live.slots)
    assert bundle.log("kernel") == host.log("kernel")
    assert bundle.redacted is redacted


def test_a_question_not_asked_at_capture_is_not_captured_and_never_absent(machine: MachineTree, tmp_path: Path) -> None:
    machine.port()
    machine.card()
    bundle = captured(machine, tmp_path / "b.tar.gz")
    for answer in (bundle.text("/etc/shadow"), bundle.names("/home"), bundle.link("/x"), bundle.stat("/dev/sda"),
                   bundle.run(("npu-smi",), 1), bundle.log("journal"),
                   bundle.holders(Sought((("/dev/x", None, None),)))):
        assert isinstance(answer, Unknown)
        assert answer.kind is Kind.NOT_CAPTURED
    assert bundle.text("/run/hotplugctl/handshake/0000:01:00.0.json") is None, "asked, and it was not there"


def test_nothing_identifying_is_in_a_redacted_bundle(machine: MachineTree, tmp_path: Path) -> None:
    machine.port()
    machine.card(serial=0x001122FFFE334455, serial_number="SN-12345678")
    machine.kmsg(
        "labaccel 0000:01:00.0: card SN-12345678 on m1.example.org up",
        "e1000e 0000:02:00.0 eth0: (PCI Express:2.5GT/s:Width x1) 52:54:00:12:34:56",
        "NVRM: GPU-8a2b1c3d-1111-2222-3333-444455556666 at 10.20.30.40",
        "audit: user alice@example.org from /home/alice token=hunter2",
    )
    captured(machine, tmp_path / "b")
    everything = b"".join(p.read_bytes() for p in (tmp_path / "b").rglob("*") if p.is_file())
    dsn = bytes.fromhex("334455") + bytes.fromhex("fe")
    texts = (b"SN-12345678", b"52:54:00:12:34:56", b"8a2b1c3d", b"10.20.30.40", b"alice", b"hunter2", b"m1.example")
    for secret in (*texts, dsn, (0x001122FFFE334455).to_bytes(8, "little")):
        assert secret not in everything, secret


def test_the_same_serial_has_the_same_alias_everywhere() -> None:
    redactor = Redactor(b"key")
    alias = redactor.attribute("serial_number", "SN-12345678")
    assert redactor.text("card SN-12345678 failed") == f"card {alias} failed"
    assert redactor.attribute("serial_number", alias) == alias, "an alias stays as it is"
    assert Redactor(b"other").attribute("serial_number", "SN-12345678") != alias


@pytest.mark.parametrize("innocent", [
    "pci 0000:3b:00.0: BAR 0 [mem 0x00000000-0x0000ffff 64bit pref]", "Kernel 6.12.117 version 25.3.0.1",
    "NVRM: loading 535.129.03", "firmware 7.3.0.1 loaded", "at 127.0.0.1", "[19e5:d802] type 00 class 0x120000",
    "pcieport 0000:00:01.0: pciehp: Slot(1): Card present", "0000:10:00.0 10:de:23:30", "CANN 8.0.1.3", "BIOS 2.19.1.0",
    "2024:11:22:33", "token: 0x3f", "serial: enabled", "serial: 8250 driver", "user space",
    "serial8250: ttyS0 at I/O 0x3f8", "Serial Number 00-00-00-00-00-00-00-00 is not set"[:13],
    "pci_bus 0000:82: resource 0 [mem 0x20000000000-0x203ffffffff]", "Linux version 6.12.117 (gcc 12.2.0)",
])
def test_addresses_of_devices_and_versions_are_not_taken_for_secrets(innocent: str) -> None:
    assert Redactor(b"key", ("node17",)).text(innocent) == innocent


@pytest.mark.parametrize(("text", "secret"), [
    ("ifname=eth0:a4:bf:01:5e:77:23", "5e:77:23"), ("link/ether A4-BF-01-5E-77-23", "5E-77"),
    ("BOOTIF=01-a4-bf-01-5e-77-23", "5e-77"), ("mac a4bf.015e.7723", "015e"), ("id a4:bf:01:ff:fe:5e:77:23", "fe:5e"),
    ("serial PF3XK9LM", "PF3XK9LM"), ("S/N PF3XK9LM", "PF3XK9LM"), ("serial no. 12345678", "12345678"),
    ("sn=PF3XK9LM", "PF3XK9LM"), ('{"serial": "PF3XK9LM"}', "PF3XK9LM"), ("SN:PF3XK9LM", "PF3XK9LM"),
    ("Authorization: Bearer eyJhbGciOi.J9x", "eyJ"), ("token ghp_abcdef123456", "ghp_"),
    ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI", "wJalr"), ("secret_key=abc123", "abc123"), ("pass=hunter2", "hunter2"),
    ("psk=hunter2", "hunter2"), ("--password hunter2", "hunter2"), ("AKIAIOSFODNN7EXAMPLE", "AKIAIO"),
    ("http://bob:hunter2@10.0.0.5/x", "hunter2"), ("naa.5000c500a1b2c3d4", "a1b2c3"), ("eui.0025385b71b00a1f", "5b71"),
    ("iqn.2019-05.com.example:disk1", "example"), ("uuid 4c4c4544004b4a108051b4c04f503132", "4c4c4544"),
    ("sudo: bob : TTY=pts/0", "bob"), ("session opened for user bob", "bob"), ("/Users/alice/log", "alice"),
    ("ZEUS-GPU-17 kernel: x", "ZEUS"), ("zeus-gpu-17-node", "zeus"), ("zeus-gpu-17.corp.example", "corp"),
    ("2001:db8::17", "db8"), ("fe80::a6bf:1ff:fe5e:7723", "a6bf"), ("lease of 10.20.30.40", "10.20"),
])
def test_what_identifies_somebody_or_lets_somebody_in_is_gone(text: str, secret: str) -> None:
    redacted = Redactor(b"key", ("zeus-gpu-17",)).text(text)
    assert secret not in redacted
    assert Redactor(b"key", ("zeus-gpu-17",)).text(redacted) == redacted, "a second time changes nothing"


def test_a_serial_is_known_before_the_log_that_names_it_is_read(machine: MachineTree) -> None:
    machine.port()
    machine.card(serial_number="XZ-99-opaque")
    host = Redacted(machine.host, redactor_for(machine.host))
    machine.kmsg("labaccel 0000:01:00.0: card XZ-99-opaque is hot")
    assert "opaque" not in str(host.log("kernel"))


@pytest.mark.parametrize("dest", ["out", "out.tar.gz"])
def test_a_hostile_machine_writes_nothing_outside_its_bundle(machine: MachineTree, tmp_path: Path, dest: str) -> None:
    recorder = Recorder(machine.host, "test")
    machine.put("/evil", "content")
    for path in ("/sys/../../../evil", "/a/./../evil", "relative"):
        recorder.text(path)
        recorder._keep(path, b"content")
    recorder.save(str(tmp_path / dest), {})
    assert sorted(p.name for p in tmp_path.rglob("*evil*") if "machine" not in p.parts) == []


@pytest.mark.parametrize("cut", [10, 200, 2000])
def test_a_bundle_cut_short_is_one_sentence(machine: MachineTree, tmp_path: Path, cut: int) -> None:
    machine.port()
    machine.card()
    captured(machine, tmp_path / "b.tar.gz")
    raw = (tmp_path / "b.tar.gz").read_bytes()
    (tmp_path / "cut.tar.gz").write_bytes(raw[:cut])
    with pytest.raises(HotplugError) as caught:
        open_host(str(tmp_path / "cut.tar.gz"))
    assert caught.value.exit is Exit.UNKNOWN
    assert "cut.tar.gz" in str(caught.value)


@pytest.mark.parametrize("manifest", [b"", b"{", b"[]", b'{"schema": "other/1"}', b'{"schema": "hotplugctl.bundle/1"}',
                                      b'{"schema": "hotplugctl.bundle/1", "host": "x", "redacted": true, "taken_at": 0,'
                                      b' "answers": []}'])
def test_a_damaged_manifest_is_one_sentence(tmp_path: Path, manifest: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(manifest)
    with pytest.raises(HotplugError, match="manifest cannot be read"):
        open_host(str(tmp_path))


def test_a_file_missing_from_a_bundle_is_damage_not_absence(machine: MachineTree, tmp_path: Path) -> None:
    machine.port()
    machine.card()
    bundle = captured(machine, tmp_path / "b")
    path = f"{machine.paths['0000:01:00.0']}/resource"
    (tmp_path / f"b/root{path}").unlink()
    answer = bundle.text(path)
    assert isinstance(answer, Unknown)
    assert "damaged" in answer.why


def test_a_capture_overwrites_nothing(machine: MachineTree, tmp_path: Path) -> None:
    machine.port()
    (tmp_path / "there").write_text("mine")
    with pytest.raises(HotplugError, match="exists"):
        captured(machine, tmp_path / "there")
    assert (tmp_path / "there").read_text() == "mine"


def test_a_hostile_archive_writes_nothing_and_names_stay_inside(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        for name in ("../../escaped", "/sys/absolute", "sys/ok"):
            member = tarfile.TarInfo(name)
            member.size = 2
            tar.addfile(member, io.BytesIO(b"hi"))
        device = tarfile.TarInfo("sys/device")
        device.type = tarfile.CHRTYPE
        tar.addfile(device)
    store = load_tar(str(tmp_path / "evil.tar"))
    assert sorted(store.names("/sys")) == ["absolute", "ok"]
    assert store.read("/escaped", 9) == b"hi"
    assert not (tmp_path.parent / "escaped").exists()


def test_a_bundle_packed_with_its_folder_opens_as_well(machine: MachineTree, tmp_path: Path) -> None:
    machine.port()
    machine.card()
    captured(machine, tmp_path / "node7")
    with tarfile.open(tmp_path / "sent.tgz", "w:gz") as tar:
        tar.add(tmp_path / "node7", "node7")
    bundle = open_host(str(tmp_path / "sent.tgz"))
    assert len(probe.machine(look.look(bundle, machine.look().settings, capture.profiles_of(bundle))).devices) == 1


def test_what_is_no_machine_is_refused_with_the_next_thing_to_type(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "log.txt").write_text("[ 1.0] hello")
    for name in ("empty", "log.txt", "none"):
        with pytest.raises(HotplugError) as caught:
            open_host(str(tmp_path / name))
        assert caught.value.hint


def test_the_live_machine_agrees_with_the_kernel_read_another_way() -> None:
    live = Live()
    assert live.text("/proc/sys/kernel/osrelease") == os.uname().release
    assert live.text("/no/such/file") is None
    assert live.text("/proc/self/mem") is None or isinstance(live.text("/proc/self/mem"), Unknown)
    node = live.stat("/dev/null")
    assert plain(node) == {"kind": "c", "major": 1, "minor": 3, "owner": "root", "group": "root", "mode": "0666"}
    assert live.stat("/etc/passwd") is None


def test_the_manifest_says_what_was_absent_and_what_could_not_be_read(machine: MachineTree, tmp_path: Path) -> None:
    machine.port()
    machine.card()
    captured(machine, tmp_path / "b")
    answers = json.loads((tmp_path / "b/manifest.json").read_text())["answers"]
    assert answers["data"]["/run/hotplugctl/handshake/0000:01:00.0.json"] == {"absent": True}
    assert next(iter(answers["holders"].values()))["kind"] == "not_captured"


def test_a_hex_dump_is_a_machine_of_which_only_config_space_is_known(machine: MachineTree, tmp_path: Path) -> None:
    machine.port()
    machine.card(vendor="10de", device="2330", class_="030200", serial=0x001122FFFE334455, width=8)
    lines = []
    for address in machine.paths:
        raw = (machine.root / machine.paths[address].lstrip("/") / "config").read_bytes()
        lines.append(f"{address[5:]} something\n{hex_dump(raw)}")
    dead = hex_dump(b"\xff" * 64)
    lines.append(f"02:00.0 Processing accelerators [1200]: Huawei [19e5:d802] (rev ff)\n{dead}")
    (tmp_path / "dump.txt").write_text("\n".join(lines))
    host = open_host(str(tmp_path / "dump.txt"))
    found = {d.address: d for d in probe.machine(look.look(host, machine.look().settings, machine.profiles)).devices}
    card = found["0000:01:00.0"]
    assert card.error is None
    assert (card.profile, card.model, card.serial) == ("nvidia", "H100 SXM5 80GB", "00-11-22-ff-fe-33-44-55")
    assert plain(card.link)["limit_width"] == 16
    assert isinstance(card.driver, Unknown)
    assert card.driver.kind is Kind.NOT_CAPTURED
    assert found["0000:02:00.0"].state.value == "failed"


def test_a_bundle_holds_the_log_that_was_judged_and_not_what_came_meanwhile(
    machine: MachineTree, tmp_path: Path
) -> None:
    machine.kmsg("one")
    recorder = Recorder(machine.host, "test")
    judged = recorder.log("kernel")
    machine.kmsg("one", "two")
    capture.superset(recorder)
    recorder.save(str(tmp_path / "bundle"), {})
    assert open_host(str(tmp_path / "bundle")).log("kernel") == judged

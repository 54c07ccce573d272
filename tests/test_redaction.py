"""Nothing secret leaves the machine, wherever it stood; what a diagnosis rests on does, and says the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotplugctl import capture, config, look
from hotplugctl.case import from_machine
from hotplugctl.host import Host
from hotplugctl.host.identifying import ALIAS
from hotplugctl.host.opening import open_host
from hotplugctl.host.recorder import Recorder
from hotplugctl.host.redact import Redactor, redactor_for
from hotplugctl.host.redacted import Redacted
from hotplugctl.model import Diagnosis
from hotplugctl.rules import load
from hotplugctl.select import Filters

from .machine import MachineTree
from .test_cli import hotplugctl

POD_UID = "1d2c3b4a-5e6f-7081-92a3-b4c5d6e7f809"
CONTAINER = "3f2a9c" + "0123456789abcdef" * 3 + "0123456789"
KEY = (
    "-----BEGIN RSA PRIVATE KEY-----", "MIIEpAIBAAKCAQEAyPlantedKeyMaterial0123456789abcdefghijklmnopqrstu",
    "Zm9vYmFy/PlantedSecondLine+0987654321zyxwvutsrqponmlkjihgfedcba==", "-----END RSA PRIVATE KEY-----",
)
CMDLINE = (
    "BOOT_IMAGE=/vmlinuz root=UUID=5e1f0a11-aaaa-bbbb-cccc-0123456789ab pci=realloc ip=10.77.3.9::10.77.3.1 "
    "rd.iscsi.password=cmdl1nepw ks=http://kick:st4rtpw@deploy.plantcorp.internal/ks.cfg console=ttyS0"
)
LOG = (
    "pcieport 0000:00:01.0: pciehp: Slot(1): Card present", "pci 0000:01:00.0: [1234:11e8] type 00 class 0x120000",
    "labaccel 0000:01:00.0: card XZ-4711-PLANT is hot",
    "labaccel 0000:01:00.0: probe with driver labaccel failed with error -110",
    "e1000e 0000:02:00.0 eth0: (PCI Express:2.5GT/s:Width x1) 52:54:00:AB:CD:EF", "IPv6: addr 2001:db8:77::1:9 up",
    "NVRM: GPU-8a2b1c3d-1111-2222-3333-444455556666 has fallen off the bus.",
    "NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "audit: user mara.plant@mail.plantcorp.example from /home/marap/work uid=1000(marap)",
    "job of marap on zeus-gpu-17 failed",
    "curl -H 'Authorization: Bearer abcDEF123.planted-Bearer' https://svc:urlpw99@api.plantcorp.internal:6443/v1",
    "env AWS_ACCESS_KEY_ID=AKIAPLANTED123456789 AWS_SECRET_ACCESS_KEY=plantedAWS/wJalrXUtnFEMI",
    '{"level":"error","user":"marap","password":"json pass phrase","host":"zeus-gpu-17","token":"t0kenPlanted99"}',
    *KEY,
    'kubelet: E0102 10:00:00 pod="plantns/train-secretjob-0" containerName="plantworker" err="timeout"',
    f"memory: usage in /kubepods/burstable/pod{POD_UID}/{CONTAINER}", "slurmd: JobId=88 UserId=marap(1000) "
    "Account=plantacct JobName=plantjob NodeList=zeus-gpu-[17-18]", "sd 0:0:0:0: [sda] naa.5000c500a1b2c3d4",
    "scsi wwpn: 0x2100001b32aabbcc", "board serial number PLANTSER42X", "later PLANTSER42X again",
    "client-key-data: UExBTlRFRC1LVUJFQ09ORklHLUtFWQ==", "current user: marap", "nfs: server 10.77.3.9 not responding",
    "export HF_TOKEN=plantedHfT0ken7 MY_TOKEN: plantedMyT0ken8", r'msg="{\"token\":\"plantedJs0nToken\"}"',
    r'body="{\"password\":\"plantedJs0nPass\"}"', "curl -s -u svcplant:plantedCurlPw https://api.plantcorp.internal/",
    "stripe sk_live_plantedStr1pe99", "GET /blob?x=1&sig=plantedS1g77%3D", r"C:\Users\marap\job.log",
)
SECRETS = (
    "cmdl1nepw", "st4rtpw", "plantcorp", "10.77.3", "5e1f0a11", "XZ-4711-PLANT", "52:54:00:ab:cd:ef", "2001:db8:77",
    "8a2b1c3d", "mara.plant", "marap", "zeus", "planted-Bearer", "urlpw99", "AKIAPLANTED", "plantedAWS",
    "json pass phrase", "plantedHfT0ken7", "plantedMyT0ken8", "plantedJs0n", "plantedCurlPw", "plantedStr1pe99",
    "plantedS1g77",
    "t0kenPlanted99", "PlantedKeyMaterial", "PlantedSecondLine", "plantns", "secretjob", "plantworker", POD_UID,
    POD_UID.replace("-", "_"), CONTAINER, "plantacct", "plantjob", "5000c500a1b2c3d4", "2100001b32aabbcc",
    "PLANTSER42X",
    "UExBTlRFRC", "sits in plant rack", "4d61636869", "77777777-8888", "Mara Planted",
)
SURVIVE = (
    "0000:01:00.0", "PCI:0000:01:00", "Xid (PCI:0000:01:00): 79", "labaccel", "failed with error -110", "Slot(1)",
    "pci=realloc",
    "has fallen off the bus", "console=ttyS0", "[1234:11e8] type 00 class 0x120000",
)


@pytest.fixture
def planted(machine: MachineTree) -> MachineTree:
    """A machine with something secret in every place that is looked at."""
    machine.port()
    here = machine.card(serial_number="XZ-4711-PLANT", serial=0x4D61636869FE0102, driver=None)
    machine.put("/etc/hostname", "zeus-gpu-17.plantcorp.internal")
    machine.put("/etc/machine-id", "4d6163686900112233445566778899aa")
    machine.put("/etc/passwd", "root:x:0:0::/root:/bin/sh\nmarap:x:1000:1000:Mara Planted:/home/marap:/bin/sh")
    machine.put("/home/marap/ascend/log/debug/plog/plog-1.log", "x")
    machine.put("/proc/cmdline", CMDLINE)
    machine.put("/proc/version", "Linux version 6.12.0 (marap@build.plantcorp.internal) (gcc 12.2.0) #1 SMP")
    machine.put("/sys/class/dmi/id/product_uuid", "77777777-8888-9999-aaaa-bbbbccccdddd")
    machine.put(f"/var/log/pods/plantns_train-secretjob-0_{POD_UID}/x", "")
    machine.put("/var/lib/hotplugctl/drain/0000:00:01.0.json", json.dumps({
        "schema": "hotplugctl.drain/1", "key": "0000:00:01.0", "slot": "1", "address": "0000:01:00.0",
        "addresses": ["0000:01:00.0"], "card": {"serial": "XZ-4711-PLANT", "model": "edu"}, "boot_id": "x",
        "since": "2026-11-29T10:00:00Z", "by": "marap", "reason": "sits in plant rack 7, ask Mara Planted",
        "goal": "unbind",
        "scope": "device", "announced": "77777777-8888-4999-8aaa-bbbbccccdddd", "rung": "ready", "told": {
            "kubernetes": {"node": "zeus-gpu-17", "pods": ["plantns/train-secretjob-0"]}},
        "taken": [{"do": "unbind", "target": "0000:01:00.0", "at": "x", "done": True, "said": "by marap"}],
    }))
    machine.put("/run/hotplugctl/handshake/0000:01:00.0.json", json.dumps({"serial": "XZ-4711-PLANT",
    "said": "for marap"}))
    machine.put(f"{here}/uuid", "77777777-8888-9999-aaaa-bbbbccccdddd")
    machine.kmsg(*LOG)
    return machine


def host_of(machine: MachineTree, *, redacted: bool) -> Host:
    tree = open_host(str(machine.root))
    return Redacted(tree, redactor_for(tree)) if redacted else tree


def captured(machine: MachineTree, dest: Path, *, redacted: bool) -> str:
    """Everything that a capture of the machine wrote, as one text."""
    recorder = Recorder(host_of(machine, redacted=redacted), "test")
    seen = look.look(recorder, config.Settings(), machine.profiles)
    from_machine(seen, (), Filters(), None)
    (home,) = recorder.names("/home") or ()
    assert recorder.text(f"/home/{home}/ascend/log/debug/plog/plog-1.log") == "x", (
        "an alias leads to the file it stands for")
    recorder.text("/etc/hostname")
    recorder.names("/var/log/pods")
    capture.save(seen, str(dest))
    return "\n".join(
        f"{path.relative_to(dest)}\n" + path.read_bytes().decode("latin-1")
        for path in sorted(dest.rglob("*")) if path.is_file())


def test_a_bundle_holds_nothing_secret_and_all_that_a_diagnosis_rests_on(planted: MachineTree, tmp_path: Path) -> None:
    text = captured(planted, tmp_path / "bundle", redacted=True)
    assert [secret for secret in SECRETS if secret.casefold() in text.casefold()] == []
    assert (0x4D61636869FE0102).to_bytes(8, "little").decode("latin-1") not in text
    assert [word for word in SURVIVE if word not in text] == []


def test_identifiers_are_kept_on_request(planted: MachineTree, tmp_path: Path) -> None:
    text = captured(planted, tmp_path / "bundle", redacted=False)
    kept = [s for s in SECRETS if s.casefold() in text.casefold()]
    assert set(SECRETS) - set(kept) <= {POD_UID.replace("-", "_"), "4d61636869", "Mara Planted"}, (
        "not read, or in bytes")


def diagnosis(host: Host, machine: MachineTree) -> Diagnosis:
    return from_machine(look.look(host, config.Settings(), machine.profiles), (), Filters(), None).diagnosis


def test_the_diagnosis_is_the_same(planted: MachineTree, tmp_path: Path) -> None:
    (planted.root / "var/lib/hotplugctl/drain/0000:00:01.0.json").unlink()
    captured(planted, tmp_path / "bundle", redacted=True)
    plain, hidden, again = (
        diagnosis(host, planted) for host in
        (host_of(planted, redacted=False), host_of(planted, redacted=True), open_host(str(tmp_path / "bundle"))))
    for one in (hidden, again):
        assert (one.verdict, [f.rule for f in one.findings]) == (plain.verdict, [f.rule for f in plain.findings])
        assert [(c.name, c.state) for c in one.checks] == [(c.name, c.state) for c in plain.checks]
    assert plain.verdict == "fault"


def test_one_secret_has_one_pseudonym_however_it_is_written() -> None:
    redactor = Redactor(b"key", ("zeus",))

    def aliases(*texts: str) -> set[str]:
        return {found for text in texts for found in ALIAS.findall(redactor.text(text))}

    assert len(aliases("mac 52:54:00:ab:cd:ef", "BOOTIF 52-54-00-AB-CD-EF", "5254.00ab.cdef")) == 1
    assert len(aliases("GPU-8a2b1c3d-1111-2222-3333-444455556666", "uuid 8a2b1c3d111122223333444455556666")) == 1
    assert len(aliases("on zeus", "ZEUS.plant.example up", '{"_HOSTNAME":"zeus"}', "NodeName=zeus")) == 1
    assert len(aliases("from 2001:db8:0:0:0:0:0:17", "from 2001:DB8::17")) == 1
    assert len(aliases("/home/mara7x/a", "UserId=mara7x(1000)", "sudo: mara7x : TTY", "ask mara7x now")) == 1
    assert len(aliases("serial number PLANT42XY", "card PLANT42XY", '{"serial": "PLANT42XY"}')) == 1


@pytest.mark.parametrize("innocent", [
    "nvidia.com/gpu: 8 allocatable, huawei.com/Ascend910: 0", "squat.ai/dvb-t and hami.io/node-handshake",
    "user not in group HwHiAiUser",
    "pinning user pages failed",
    "Error: container: device not found", "libcuda.so.1: cannot open shared object file",
    "torch.cuda.is_available() is False",
    "RuntimeError: CUDA error 999", "user: permission denied for it", "[pid 4711] EZ9999: Inner Error",
    "npu-smi info -t health -i 0",
    "0x00000000c0ffee12 token: 0x3f", "rtDeviceReset failed, ret=507899", "namespace: not allowed here",
    "host: no such device now",
    "Traceback (most recent call last):", 'File "/usr/lib/python3/dist-packages/torch/npu/__init__.py", line 12',
    "pod not found",
    "00000000:3B:00.0 Off", "Driver Version: 535.129.03   CUDA Version: 12.2",
    "[mem 0x38000000000-0x380ffffffff 64bit pref]",
    "vfio-pci 0000:65:00.0: reset", "iommu group 27", "lspci -s 3b:00.0 -vvv", "Firmware Version: 7.1.0.3.220",
])
def test_the_words_of_logs_are_not_taken_for_names(innocent: str) -> None:
    assert Redactor(b"key", ("node17",)).text(innocent) == innocent


@pytest.mark.parametrize("text", LOG)
def test_a_second_time_changes_nothing(text: str) -> None:
    redactor = Redactor(b"key", ("zeus-gpu-17",))
    once = redactor.text(text)
    assert redactor.text(once) == once


def test_every_shipped_example_is_diagnosed_alike_when_redacted() -> None:
    """A rule's own lines, redacted, still make it fire."""
    from hotplugctl.readers.logs import read_log
    from hotplugctl.rules.hearing import hear

    rules = load.rules([])
    redactor = Redactor(b"key", ("zeus-gpu-17",))
    for rule in rules:
        text = "\n".join(rule.examples.get("fires", {}).get("log", ()))
        if text:
            before, after = (hear([rule], read_log(one, "x")) for one in (text, redactor.text(text)))
            assert {pattern: len(lines) for pattern, lines in before.items()} == {
                pattern: len(lines) for pattern, lines in after.items()}, rule.id




def test_a_bundle_and_the_text_beside_it_share_their_pseudonyms(planted: MachineTree, tmp_path: Path) -> None:
    captured(planted, tmp_path / "bundle", redacted=False)
    (tmp_path / "train.log").write_text("RuntimeError on card XZ-4711-PLANT: NPU error, code 507010, ask marap\n")
    told = hotplugctl("diagnose", "--from", str(tmp_path / "bundle"), "--from", str(tmp_path / "train.log"), "--redact",
                      "--json")
    assert "PLANT" not in told.out
    assert "marap" not in told.out
    probed = hotplugctl("probe", "01:00.0", "--root", str(tmp_path / "bundle"), "--redact", "--json")
    serial = probed.data["serial"]
    lines = [moment["text"] for moment in told.data["timeline"] if moment["source"] == "train.log"]
    assert all(serial in line for line in lines)


def test_the_name_of_a_file_gives_nobody_away(tmp_path: Path) -> None:
    log = tmp_path / "zeus-gpu-17-marap.log"
    log.write_text("Nov  9 10:00:01 zeus-gpu-17 kernel: pcieport 0000:3a:00.0: pciehp: Slot(3): Power fault\n"
                   "user=marap logged in\n")
    for form in ("plain", "json", "html"):
        result = hotplugctl("diagnose", "--redact", "--from", str(log), "-o", form)
        assert "0000:3a:00.0" in result.out
        assert "zeus" not in result.out
        assert "marap" not in result.out

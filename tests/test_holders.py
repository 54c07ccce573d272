"""Who has a card, from sysfs and from what a Host found in processes; and how each lets go of it."""

from __future__ import annotations

import json
from dataclasses import astuple, replace
from typing import Any

import pytest

from hotplugctl.host import OpenFile, Seen, Sought
from hotplugctl.host.files import Memory
from hotplugctl.host.recorder import Recorder
from hotplugctl.host.redact import Redactor
from hotplugctl.host.redacted import Redacted
from hotplugctl.host.tree import Bundle, Tree
from hotplugctl.model import Holder, Kind, Node, Unknown, unseen
from hotplugctl.output import views
from hotplugctl.output.tables import render
from hotplugctl.readers import kfd, pci
from hotplugctl.readers.holders import go_together, of_card, sought

from .machine import MachineTree

ID = "3f2a9c" + "0123456789abcdef" * 3 + "0123456789"
UID = "1d2c3b4a-5e6f-7081-92a3-b4c5d6e7f809"
MDEV = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"
NODE = Node("/dev/davinci0", 236, 0, "root", "HwHiAiUser", "0660")
DENIED = Unknown("pid 1 (systemd) cannot be looked into: needs root or CAP_SYS_PTRACE", Kind.DENIED)


def captured(*files: OpenFile, cgroups: dict[int, str | None], pods: tuple[str, ...] = (), gap: Unknown | None = None):
    """A bundle with these open files and control groups; None = the process had ended."""
    texts = {f"/proc/{pid}/cgroup": text for pid, text in cgroups.items()}
    texts |= {f"/proc/{pid}/stat": f"{pid} (x) S 1 " + "0 " * 48 for pid in cgroups}
    missing = {"/sys/class/kfd/kfd/topology/nodes": {"absent": True}}
    told = {"unknown": gap.why, "kind": gap.kind.value} if gap is not None else None
    answers = {
        "data": {path: {"absent": True} if text is None else {} for path, text in texts.items()},
        "names": {"/var/log/pods": list(pods) if pods else {"absent": True}, **missing},
        "holders": {
            Sought(((NODE.path, 236, 0),)).key: {"files": [astuple(f) for f in files], "unseen": told}
        },
    }
    manifest = {"schema": "hotplugctl.bundle/1", "host": "n", "redacted": False, "taken_at": 0, "answers": answers}
    stored = {f"/root{path}": text.encode() for path, text in texts.items() if text is not None}
    return Bundle(Memory({"/manifest.json": json.dumps(manifest).encode(), **stored}, {}), "made up")


def opened(pid: int, command: str = "x", user: str = "root", via: str = "fd", since: float | None = 1.5) -> OpenFile:
    return OpenFile(pid, command, user, via, NODE.path, since)


def found(host: Any) -> Any:
    return of_card(host, (), (NODE,))


def test_a_holder_is_told_how_to_let_go() -> None:
    holders = found(captured(
        opened(4711, "python3", "ana"), opened(88, "train", "bo", "map"), opened(7, "nvidia-persist"),
        cgroups={
            4711: "0::/user.slice/user-1000.slice/session-4.scope",
            88: "0::/system.slice/slurmstepd.scope/job_1234/step_0/user/task_0",
            7: "0::/system.slice/nvidia-persistenced.service",
        },
    ))
    assert [(h.pid, h.release) for h in holders] == [
        (7, "systemctl stop nvidia-persistenced"), (88, "scancel 1234"), (4711, "stop pid 4711"),
    ]
    assert (holders[1].job, holders[1].via, holders[1].node, holders[1].user) == ("1234", "map", NODE.path, "bo")
    assert (holders[2].container, holders[2].unit, holders[2].since) == (None, "session-4.scope", 1.5)
    assert unseen(holders) is None


def test_a_pod_is_named_by_the_kubelets_folders() -> None:
    cgroup = f"0::/kubepods/burstable/pod{UID}/{ID}"
    (named,) = found(captured(opened(4711), cgroups={4711: cgroup}, pods=(f"ml_train-0_{UID}", "broken")))
    assert (named.pod, named.release) == ("ml/train-0", "kubectl delete pod train-0 -n ml")
    (unnamed,) = found(captured(opened(4711), cgroups={4711: cgroup}))
    assert (unnamed.pod, unnamed.release) == (UID, f"delete the pod with uid {UID}")


def test_a_process_that_ended_meanwhile_is_still_listed() -> None:
    (holder,) = found(captured(opened(9, "gone"), cgroups={9: None}))
    assert (holder.pid, holder.container, holder.release) == (9, None, "stop pid 9")


def test_a_control_group_that_was_not_captured_is_unknown_and_not_absent() -> None:
    (holder,) = found(captured(opened(9), cgroups={}))
    assert holder.container.kind is Kind.NOT_CAPTURED
    assert holder.unit.kind is Kind.NOT_CAPTURED


def test_nobody_and_could_not_look_are_told_apart() -> None:
    assert found(captured(cgroups={})) == ()
    assert unseen(()) is None
    answer = found(captured(cgroups={}, gap=DENIED))
    assert isinstance(answer, Unknown)
    assert unseen(answer) is answer
    assert isinstance(found(Tree(Memory({}, {}), "n")), Unknown)


def test_a_partial_answer_does_not_pass_as_whole() -> None:
    holders = found(captured(opened(9), cgroups={9: "0::/"}, gap=DENIED))
    assert [(h.pid, h.via) for h in holders] == [(9, "fd"), (0, "unseen")]
    assert unseen(holders) is holders[-1].command
    assert holders[-1].release == "look again as root, on the host itself"


def test_nodes_that_are_not_known_leave_the_answer_open() -> None:
    host = captured(cgroups={})
    host._answers["holders"][Sought().key] = {"files": [], "unseen": None}
    assert isinstance(of_card(host, (), DENIED), Unknown)


@pytest.mark.parametrize("broken", [{"files": [[1]], "unseen": None}, {"files": 3, "unseen": None}, {"files": []}])
def test_a_damaged_answer_in_a_bundle_is_unknown(broken: Any) -> None:
    host = captured(cgroups={})
    host._answers["holders"] = dict.fromkeys(host._answers["holders"], broken)
    assert isinstance(found(host), Unknown)


class Holding:
    """A tree of a machine in which these processes have whatever is asked for."""

    def __init__(self, tree: Any, *files: OpenFile) -> None:
        self._tree, self._files = tree, files
        self.asked: list[Sought] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tree, name)

    def holders(self, asked: Sought) -> Seen:
        self.asked.append(asked)
        told = [OpenFile(pid, "rocm", "ana", via, path, None) for pid, via, path in asked.told]
        return Seen((*self._files, *told))


def test_a_bundle_gives_the_answer_of_the_live_machine_and_a_redacted_one_no_login_name(machine: MachineTree) -> None:
    machine.put("/proc/9/cgroup", "0::/")
    machine.put("/proc/9/stat", "9 (x) S 1 " + "0 " * 48)
    for redactor in (None, Redactor(b"key")):
        host: Any = Holding(machine.host, opened(9, user="ana"))
        recorder = Recorder(Redacted(host, redactor) if redactor else host, "t")
        live = found(recorder)
        answers = recorder.answered()
        stored = {f"/root{path}": b"0::/" if path.endswith("cgroup") else b"9 (x) S 1 " + b"0 " * 48
                  for path in answers["data"] if path.startswith("/proc/")}
        manifest = {"schema": "hotplugctl.bundle/1", "host": "n", "redacted": bool(redactor), "taken_at": 0,
                    "answers": json.loads(json.dumps(answers))}
        again = found(Bundle(Memory({"/manifest.json": json.dumps(manifest).encode(), **stored}, {}), "b"))
        assert again == live
        assert (live[0].user == "ana") is (redactor is None)


def card_of(machine: MachineTree, address: str = "0000:01:00.0") -> tuple[pci.Function, ...]:
    functions = pci.functions(machine.host)
    assert isinstance(functions, tuple)
    return go_together(machine.host, next(f for f in functions if f.address == address), functions)


def test_all_functions_of_a_card_and_its_virtual_ones_go_together(machine: MachineTree) -> None:
    machine.port()
    here = machine.card()
    machine.card("0000:01:00.1")
    virtual = machine.card("0000:01:00.4", driver="vfio-pci", iommu="")
    other = machine.card("0000:01:08.0")
    machine.link(f"{here}/virtfn0", "../0000:01:00.4")
    machine.link(f"{virtual}/physfn", "../0000:01:00.0")
    machine.link(f"{virtual}/iommu_group", "../../../../kernel/iommu_groups/17")
    machine.put(f"{virtual}/vfio-dev/vfio3/dev", "511:3")
    assert [f.address for f in card_of(machine)] == ["0000:01:00.0", "0000:01:00.1", "0000:01:00.4"]
    assert [f.address for f in card_of(machine, "0000:01:00.4")] == ["0000:01:00.4"]
    asked, gap = sought(machine.host, card_of(machine), ())
    assert [path for path, _, _ in asked.nodes] == ["/dev/vfio/17", "/dev/vfio/devices/vfio3"]
    assert gap is None
    assert other


def test_a_driver_that_the_card_has_alone_is_told(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    machine.link("/sys/bus/pci/drivers/labaccel/0000:01:00.0", "x")
    assert sought(machine.host, card_of(machine), ())[0].sole == "labaccel"
    machine.link("/sys/bus/pci/drivers/labaccel/0000:02:00.0", "x")
    assert sought(machine.host, card_of(machine), ())[0].sole is None


def test_users_in_the_kernel_are_holders_without_a_process_in_a_tree(machine: MachineTree) -> None:
    machine.port()
    here = machine.card()
    machine.put("/sys/module/labaccel/holders/lab_peermem/x", "")
    machine.put("/sys/module/labaccel/holders/lab_companion/x", "")
    machine.put(f"{here}/{MDEV}/x", "")
    holders = of_card(Holding(machine.host), card_of(machine), (), ["labaccel", "lab-companion"])  # type: ignore[arg-type]
    assert isinstance(holders, tuple)
    assert [(h.pid, h.command, h.via, h.release) for h in holders] == [
        (0, MDEV, "mdev", f"echo 1 > {here}/{MDEV}/remove"),
        (0, "lab_peermem", "module", "unload the kernel module lab_peermem"),
    ]


def test_an_owner_that_the_driver_names_is_a_holder_in_a_tree(machine: MachineTree) -> None:
    machine.port()
    here = machine.card()
    machine.put(f"{here}/apex/apex_0/device_owner", "4711")
    asked, _ = sought(machine.host, card_of(machine), ())
    assert asked.told == ((4711, "owner", f"{here}/apex/apex_0/device_owner"),)
    machine.put(f"{here}/apex/apex_0/device_owner", "0")
    assert sought(machine.host, card_of(machine), ())[0].told == ()


def gpu(machine: MachineTree, node: int, gpu_id: int, location: int, domain: int = 0) -> None:
    machine.put(f"{kfd.KFD}/topology/nodes/{node}/gpu_id", str(gpu_id))
    machine.put(f"{kfd.KFD}/topology/nodes/{node}/properties", f"simd_count 4\nlocation_id {location}\ndomain {domain}")


def test_kfd_tells_which_process_uses_which_gpu_in_a_tree(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    gpu(machine, 0, 0, 0)                  # the processor
    gpu(machine, 1, 51000, 0x0100)
    gpu(machine, 2, 52000, 0xC100)
    for pid, mine, others in ((10, "4096", "0"), (11, "0", "4096"), (12, "0", "0")):
        machine.put(f"{kfd.KFD}/proc/{pid}/vram_51000", mine)
        machine.put(f"{kfd.KFD}/proc/{pid}/vram_52000", others)
    machine.put(f"{kfd.KFD}/proc/12/queues/1/gpuid", "51000")
    holders = of_card(Holding(machine.host), card_of(machine), ())  # type: ignore[arg-type]
    assert isinstance(holders, tuple)
    assert [(h.pid, h.via, str(h.node).removeprefix(kfd.KFD)) for h in holders] == [
        (10, "kfd", "/proc/10/vram_51000"), (12, "kfd", "/proc/12/queues/1/gpuid"),
    ]


@pytest.mark.parametrize(("properties", "device"), [
    ("location_id 256\ndomain 0", "0000:01:00"), ("location_id 49408\ndomain 1", "0001:c1:00"),
    ("location_id 49411\ndomain 0", "0000:c1:00"), ("location_id 805355776\ndomain 0", "0000:c1:00"),
    ("location_id 12544", "0000:31:00"), ("simd_count 4", None), ("", None),
])
def test_a_topology_node_tells_its_place_on_the_bus(properties: str, device: str | None) -> None:
    assert kfd.location(properties) == device


def test_a_table_shows_who_has_it_and_that_there_may_be_more(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    device = machine.devices()["0000:01:00.0"]
    holder = Holder(9, "train", "ana", "fd", "/dev/x", None, None, "77", "scancel 77", "slurmd.service", 1.7e9)
    holders = (holder, replace(holder, pid=0, via="unseen", command=DENIED, release="look again"))
    text = render(views.probed(_probed(device, holders)), "plain")
    assert "pid 9 train (ana) has /dev/x by fd; runs since 2023-11-14 22:13 UTC; job 77; slurmd.service;" in text
    assert "perhaps more: pid 1 (systemd) cannot be looked into" in text


def _probed(device: Any, holders: Any) -> Any:
    from hotplugctl import probe

    return probe._as_probed(device, holders=holders)

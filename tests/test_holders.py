"""Who a process belongs to, out of its control group, and how it lets go of a card."""

from __future__ import annotations

import json

import pytest

from hotplugctl.host.files import Memory
from hotplugctl.host.tree import Bundle, Tree
from hotplugctl.model import Kind, Unknown
from hotplugctl.readers.holders import Owner, holders, owner

ID = "3f2a9c" + "0123456789abcdef" * 3 + "0123456789"
OTHER = "b" * 64
UID = "1d2c3b4a-5e6f-7081-92a3-b4c5d6e7f809"
UID_ = UID.replace("-", "_")
SHORT = ID[:12]

CGROUPS = [
    # systemd driver, cgroup v2
    (f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice/cri-containerd-{ID}.scope",
     Owner(container=ID, pod=UID, stop=f"crictl stop {SHORT}")),
    (f"0::/kubepods.slice/kubepods-pod{UID_}.slice/crio-{ID}.scope/container",
     Owner(container=ID, pod=UID, stop=f"crictl stop {SHORT}")),
    (f"0::/system.slice/docker-{ID}.scope", Owner(container=ID, stop=f"docker stop {SHORT}")),
    (f"0::/machine.slice/libpod-{ID}.scope/container", Owner(container=ID, stop=f"podman stop {SHORT}")),
    (f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope",
     Owner(container=ID, stop=f"podman stop {SHORT}")),
    (f"0::/system.slice/nerdctl-{ID}.scope", Owner(container=ID, stop=f"nerdctl stop {SHORT}")),
    # cgroupfs driver
    (f"0::/kubepods/burstable/pod{UID}/{ID}", Owner(container=ID, pod=UID, stop=f"crictl stop {SHORT}")),
    (f"0::/kubepods/besteffort/pod{'a' * 32}/{ID}", Owner(container=ID, pod="a" * 32, stop=f"crictl stop {SHORT}")),
    (f"0::/docker/{ID}", Owner(container=ID, stop=f"docker stop {SHORT}")),
    (f"0::/default/{ID}", Owner(container=ID)),
    # cgroup v1: one line a controller, named ones too
    (f"12:pids:/docker/{ID}\n11:devices:/docker/{ID}\n1:name=systemd:/docker/{ID}\n0::/system.slice/containerd.service",
     Owner(container=ID, service="containerd.service", stop=f"docker stop {SHORT}")),
    (f"5:devices:/system.slice/containerd.service/kubepods-pod{UID_}.slice:cri-containerd:{ID}",
     Owner(container=ID, pod=UID, service="containerd.service", stop=f"crictl stop {SHORT}")),
    # a cluster inside a container: the pod's own container
    (f"0::/docker/{OTHER}/kubelet/kubepods/pod{UID}/{ID}", Owner(container=ID, pod=UID, stop=f"crictl stop {SHORT}")),
    # the container's monitor is not in the container
    (f"0::/machine.slice/libpod-conmon-{ID}.scope", Owner()),
    # batch jobs
    ("0::/system.slice/slurmstepd.scope/job_88/step_0/user/task_0", Owner(job="88")),
    ("0::/system.slice/node1_slurmstepd.scope/job_88/step_batch/user", Owner(job="88")),
    ("4:memory:/slurm/uid_1000/job_88/step_0/task_0\n1:name=systemd:/system.slice/slurmd.service",
     Owner(job="88", service="slurmd.service")),
    # by name
    ("0::/lxc.payload.web-1/init.scope", Owner(container="web-1", stop="lxc-stop -n web-1")),
    ("9:devices:/lxc/web1", Owner(container="web1", stop="lxc-stop -n web1")),
    (r"0::/machine.slice/machine-qemu\x2d3\x2dtrain\x2d07.scope/libvirt/emulator",
     Owner(container="train-07", stop="virsh shutdown train-07")),
    # plain
    ("0::/system.slice/nvidia-persistenced.service", Owner(service="nvidia-persistenced.service")),
    ("0::/system.slice/system-npu.slice/npu@3.service", Owner(service="npu@3.service")),
    ("0::/user.slice/user-1000.slice/session-4.scope", Owner()),
    (f"0::/../../kubepods-pod{UID_}.slice/cri-containerd-{ID}.scope",
     Owner(container=ID, pod=UID, stop=f"crictl stop {SHORT}")),
    ("0::/", Owner()), ("", Owner()), ("nonsense", Owner()), (f"0::/{'a' * 63}", Owner()), (f"0::/{'a' * 65}", Owner()),
]


@pytest.mark.parametrize(("cgroup", "expected"), CGROUPS)
def test_a_control_group_tells_its_owner(cgroup, expected):
    assert owner(cgroup) == expected


NODES = ("/dev/davinci0",)


def captured(*files: tuple[int, str, str, str, str], cgroups: dict[int, str | None], pods: tuple[str, ...] = ()):
    """A bundle with these open files and control groups; None = the process had ended."""
    texts = {f"/proc/{pid}/cgroup": text for pid, text in cgroups.items()}
    answers = {
        "data": {path: {"absent": True} if text is None else {} for path, text in texts.items()},
        "names": {"/var/log/pods": list(pods) if pods else {"absent": True}},
        "holders": {json.dumps(NODES): [list(file) for file in files]},
    }
    manifest = {"schema": "hotplugctl.bundle/1", "host": "n", "redacted": False, "taken_at": 0, "answers": answers}
    stored = {f"/root{path}": text.encode() for path, text in texts.items() if text is not None}
    return Bundle(Memory({"/manifest.json": json.dumps(manifest).encode(), **stored}, {}), "made up")


def test_a_holder_is_told_how_to_let_go():
    host = captured(
        (4711, "python3", "ana", "fd", NODES[0]), (88, "train", "bo", "map", NODES[0]),
        (7, "nvidia-persist", "root", "fd", NODES[0]),
        cgroups={
            4711: "0::/user.slice/user-1000.slice/session-4.scope",
            88: "0::/system.slice/slurmstepd.scope/job_1234/step_0/user/task_0",
            7: "0::/system.slice/nvidia-persistenced.service",
        },
    )
    found = holders(host, NODES)
    assert [(h.pid, h.release) for h in found] == [
        (7, "systemctl stop nvidia-persistenced"), (88, "scancel 1234"), (4711, "stop pid 4711"),
    ]
    assert (found[1].job, found[1].via, found[1].node, found[1].user) == ("1234", "map", "/dev/davinci0", "bo")
    assert found[2].container is None


def test_a_pod_is_named_by_the_kubelets_folders():
    cgroup = f"0::/kubepods/burstable/pod{UID}/{ID}"
    file = (4711, "python3", "root", "fd", NODES[0])
    (named,) = holders(captured(file, cgroups={4711: cgroup}, pods=(f"ml_train-0_{UID}", "broken")), NODES)
    assert (named.pod, named.release) == ("ml/train-0", "kubectl delete pod train-0 -n ml")
    (unnamed,) = holders(captured(file, cgroups={4711: cgroup}), NODES)
    assert (unnamed.pod, unnamed.release) == (UID, f"delete the pod with uid {UID}")


def test_a_process_that_ended_meanwhile_is_still_listed():
    (holder,) = holders(captured((9, "gone", "root", "fd", NODES[0]), cgroups={9: None}), NODES)
    assert (holder.pid, holder.container, holder.release) == (9, None, "stop pid 9")


def test_a_control_group_that_was_not_captured_is_unknown_and_not_absent():
    (holder,) = holders(captured((9, "x", "root", "fd", NODES[0]), cgroups={}), NODES)
    assert holder.container.kind is Kind.NOT_CAPTURED


def test_a_kernel_user_names_its_module():
    (holder,) = holders(captured((0, "nvidia_peermem", "root", "module", NODES[0]), cgroups={0: None}), NODES)
    assert holder.release == "unload the kernel module nvidia_peermem"


def test_nobody_and_could_not_look_are_told_apart():
    assert holders(captured(cgroups={}), NODES) == ()
    assert isinstance(holders(Tree(Memory({}, {}), "n"), NODES), Unknown)
    assert holders(Tree(Memory({}, {}), "n"), ()) == ()

"""Who a process belongs to, out of its control group and its ancestors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hotplugctl.host.files import Memory
from hotplugctl.host.tree import Tree
from hotplugctl.model import Unknown
from hotplugctl.readers.owners import Owner, of_process, owner

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
    assert replace(owner(cgroup), unit=None) == expected


def test_a_session_and_a_service_are_units_and_a_slice_is_none():
    assert owner("0::/user.slice/user-1000.slice/session-4.scope").unit == "session-4.scope"
    assert owner("0::/system.slice/system-npu.slice/npu@3.service").unit == "npu@3.service"
    assert owner("0::/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service").unit == "jupyter.service"
    assert owner("0::/system.slice").unit is None


def plain_tree(**texts: str) -> Tree:
    return Tree(Memory({f"/proc/{path}": text.encode() for path, text in texts.items()}, {}), "n")


def stat(pid: int, name: str, parent: int) -> str:
    return f"{pid} ({name}) S {parent} " + " ".join(["0"] * 48)


def test_without_a_control_group_the_job_is_that_of_the_step_manager_above_in_a_tree():
    texts = {
        "4711/cgroup": "0::/system.slice/slurmd.service", "4711/stat": stat(4711, "python3", 4700),
        "4700/stat": stat(4700, "slurm_script (x)", 4690), "4690/stat": stat(4690, "slurmstepd", 1),
        "4690/cmdline": "slurmstepd: [3385.batch]\0",
    }
    found = of_process(plain_tree(**texts), 4711)
    assert (found.job, found.service, found.unit) == ("3385", "slurmd.service", "slurmd.service")
    texts["4690/cmdline"] = "/usr/sbin/slurmstepd\0"
    assert isinstance(of_process(plain_tree(**texts), 4711).job, Unknown), "a step manager that does not tell its job"
    texts["4690/stat"] = stat(4690, "bash", 1)
    assert of_process(plain_tree(**texts), 4711).job is None


def test_no_command_line_but_the_step_managers_is_read():
    asked = []

    class Noting(Tree):
        def text(self, path: str):
            asked.append(path)
            return super().text(path)

    stats = {f"/proc/{pid}/stat": stat(pid, "sh", parent).encode() for pid, parent in ((9, 8), (8, 1))}
    texts = {"/proc/9/cgroup": b"0::/", **stats}
    assert of_process(Noting(Memory(texts, {}), "n"), 9) == Owner()
    assert not [path for path in asked if path.endswith(("cmdline", "environ"))]


def test_a_process_that_has_ended_has_no_owner():
    assert of_process(plain_tree(**{"1/stat": "x"}), 9) is None

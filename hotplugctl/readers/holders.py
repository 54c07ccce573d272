"""Who has a device: processes, and the container, pod, batch job or service that each belongs to.

A process's control group names its owner. It is read from the host's point of view: inside a cgroup namespace the path
is relative, and what the path does not show is not known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..host import Host, OpenFile
from ..model import Holder, Maybe

POD_LOGS = "/var/log/pods"      # NAMESPACE_NAME_UID, one folder a pod, made by the kubelet

# 64 hex digits are a container, wherever they stand: `docker-<id>.scope` with the systemd driver, `/docker/<id>` with
# the cgroupfs driver. A conmon (`crio-conmon-<id>.scope`) is the container's monitor and stands outside it.
_CONTAINER = re.compile(r"(?<!conmon)[-/:](?P<id>[0-9a-f]{64})(?=\.scope|/|$)")
# Containers and virtual machines that go by a name. systemd writes a dash in the name of a scope as \\x2d.
_NAMED = (
    (re.compile(r"/lxc(?:\.payload\.|/)(?P<id>[^/]+)"), "lxc-stop -n {id}"),
    (re.compile(r"/machine-qemu\\x2d\d+\\x2d(?P<id>[^/]+)\.scope(?=/|$)"), "virsh shutdown {id}"),
)
# A pod's uid has dashes; the systemd driver writes them as underscores, since a dash means a parent slice to it.
# A static pod's uid is a hash of 32 digits without any.
_POD = re.compile(r"pod(?P<id>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?=\.slice|/|$)")
_JOB = re.compile(r"slurm.*?/job_(?P<id>\d+)(?=/|$)")
_SERVICE = re.compile(r"^/system\.slice/(?:[^/]+\.slice/)*(?P<id>[^/]+\.service)(?=/|$)")

# Which tool stops a container, told by what stands before its id; the first that fits.
STOP = (
    (re.compile(r"kubepods|cri-containerd|crio"), "crictl stop {id}"), (re.compile(r"libpod"), "podman stop {id}"),
    (re.compile(r"nerdctl"), "nerdctl stop {id}"), (re.compile(r"docker"), "docker stop {id}"),
)
SHORT = 12      # digits of a container's id that its tools show and take


@dataclass(frozen=True, slots=True)
class Owner:
    """What a control group tells of a process. `stop` is the command that stops the container or virtual machine."""

    container: str | None = None
    pod: str | None = None
    job: str | None = None
    service: str | None = None
    stop: str | None = None


def owner(cgroup: str) -> Owner:
    """The owner of a process, out of its /proc/PID/cgroup (one line with cgroup v2, one a controller with v1)."""
    paths = [line.split(":", 2)[2] for line in cgroup.splitlines() if line.count(":") >= 2]
    job, pod, service = (_first(pattern, paths) for pattern in (_JOB, _POD, _SERVICE))
    container, stop = None, None
    for path in paths:
        if inner := list(_CONTAINER.finditer(path)):      # the innermost: a node of kind is a container with pods in it
            container = inner[-1]["id"]
            stop = next((s.format(id=container[:SHORT]) for where, s in STOP if where.search(path)), None)
            break
    for pattern, command in _NAMED if container is None else ():
        if (name := _first(pattern, paths)) is not None:
            container = name.replace("\\x2d", "-")
            stop = command.format(id=container)
    if pod is not None and len(pod) == 36:
        pod = pod.replace("_", "-")
    return Owner(container, pod, job, service, stop)


def _first(pattern: re.Pattern[str], paths: list[str]) -> str | None:
    return next((match["id"] for path in paths if (match := pattern.search(path))), None)


def holders(host: Host, nodes: tuple[str, ...]) -> Maybe[tuple[Holder, ...]]:
    """Every process that has one of the nodes; no nodes, no holders. Unknown when processes cannot be looked into."""
    if not nodes:
        return ()
    found = host.holders(nodes)
    if not isinstance(found, tuple):
        return found
    pods = _pods(host) if found else {}
    return tuple(_holder(host, file, pods) for file in sorted(found, key=lambda f: (f.pid, f.path, f.via)))


def _holder(host: Host, file: OpenFile, pods: dict[str, tuple[str, str]]) -> Holder:
    cgroup = host.text(f"/proc/{file.pid}/cgroup")
    if not isinstance(cgroup, str):      # it ended meanwhile, or is another user's
        return Holder(
            file.pid, file.command, file.user, file.via, file.path, container=cgroup, pod=cgroup, job=cgroup,
            release=release(file, Owner(), None),
        )
    owned = owner(cgroup)
    name = pods.get(owned.pod or "")
    return Holder(
        file.pid, file.command, file.user, file.via, file.path, container=owned.container,
        pod="/".join(name) if name else owned.pod, job=owned.job, release=release(file, owned, name),
    )


def release(file: OpenFile, owned: Owner, pod: tuple[str, str] | None) -> str:
    """How to make a holder let go, for the one who owns it: the outermost that manages it comes first."""
    if file.via == "module":
        return f"unload the kernel module {file.command}"
    if owned.job is not None:
        return f"scancel {owned.job}"
    if pod is not None:
        return f"kubectl delete pod {pod[1]} -n {pod[0]}"
    if owned.pod is not None:
        return f"delete the pod with uid {owned.pod}"
    if owned.stop is not None:
        return owned.stop
    if owned.container is not None:
        return f"stop the container {owned.container[:SHORT]}"
    return f"systemctl stop {owned.service.removesuffix('.service')}" if owned.service else f"stop pid {file.pid}"


def _pods(host: Host) -> dict[str, tuple[str, str]]:
    """uid -> (namespace, name) of the pods of this node."""
    names = host.names(POD_LOGS)
    split = [name.split("_") for name in names] if isinstance(names, tuple) else []
    return {parts[2]: (parts[0], parts[1]) for parts in split if len(parts) == 3}

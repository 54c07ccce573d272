"""Whose a process is: the container, pod, batch job or service that it belongs to.

A process's control group names its owner. It is read from the host's point of view: inside a cgroup namespace the path
is relative, and what the path does not show is not known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ..host import Host, procfs
from ..model import Kind, Maybe, Unknown

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
_UNIT = re.compile(r"\.(?:service|scope)$")
_SERVICE = re.compile(r"^/system\.slice/(?:[^/]+\.slice/)*(?P<id>[^/]+\.service)(?=/|$)")

# Which tool stops a container, told by what stands before its id; the first that fits.
STOP = (
    (re.compile(r"kubepods|cri-containerd|crio"), "crictl stop {id}"), (re.compile(r"libpod"), "podman stop {id}"),
    (re.compile(r"nerdctl"), "nerdctl stop {id}"), (re.compile(r"docker"), "docker stop {id}"),
)
STEP_MANAGER = "slurmstepd"
# `slurmstepd: [3385.0]`, `[3385.batch]`, `[3385.extern]`; before Slurm 20.11 a batch step may be `[3385]`.
_STEP_TITLE = re.compile(rf"{STEP_MANAGER}: \[(?P<id>\d+)[.\]]")
DEEPEST = 64    # generations of processes looked at
SHORT = 12      # digits of a container's id that its tools show and take


@dataclass(frozen=True, slots=True)
class Owner:
    """What a control group tells of a process. `stop` is the command that stops the container or virtual machine.

    `service` is the system service that it is, or is part of; `unit` any systemd unit, a session's scope too.
    """

    container: str | None = None
    pod: str | None = None
    job: Maybe[str] = None
    service: str | None = None
    stop: str | None = None
    unit: str | None = None


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
    return Owner(container, pod, job, service, stop, _unit(paths))


def _first(pattern: re.Pattern[str], paths: list[str]) -> str | None:
    return next((match["id"] for path in paths if (match := pattern.search(path))), None)


def _unit(paths: list[str]) -> str | None:
    """The systemd unit: what comes after the slices; of a user's own manager, the unit that it manages."""
    for path in paths:
        units = [part for part in path.split("/") if _UNIT.search(part)]
        if units:
            return units[1] if len(units) > 1 and units[0].startswith("user@") else units[0]
    return None


def of_process(host: Host, pid: int) -> Maybe[Owner]:
    """The owner of a process: its control group's, and where that names none, the Slurm job among its ancestors.

    None when it has ended.
    """
    cgroup = host.text(f"/proc/{pid}/cgroup")
    if not isinstance(cgroup, str):
        return cgroup
    owned = owner(cgroup)
    if owned.job is None and owned.pod is None and owned.container is None:
        return replace(owned, job=_job_above(host, pid))
    return owned


def _job_above(host: Host, pid: int) -> Maybe[str]:
    """The job whose step manager is an ancestor: how proctrack/linuxproc tells what belongs to a job.

    src/plugins/proctrack/linuxproc/kill_tree.c looks for a `slurmstepd` above, and slurmstepd.c sets its own title to
    the step it manages. A process whose parents have ended is lost to both.
    """
    seen: set[int] = set()
    while pid > 1 and pid not in seen and len(seen) < DEEPEST:
        seen.add(pid)
        line = host.text(f"/proc/{pid}/stat")
        if not isinstance(line, str):
            return line
        try:
            name, parent = procfs.name_in_stat(line), procfs.parse_stat(line).parent
        except ValueError:
            return Unknown(f"/proc/{pid}/stat is damaged", Kind.IO)
        if name == STEP_MANAGER:
            title = host.text(f"/proc/{pid}/cmdline")
            if not isinstance(title, str):
                return title
            match = _STEP_TITLE.match(title)
            return match["id"] if match else Unknown(f"{STEP_MANAGER}, pid {pid}, does not tell its job", Kind.IO)
        pid = parent
    return None


def pods(host: Host) -> dict[str, tuple[str, str]]:
    """uid -> (namespace, name) of the pods of this node."""
    names = host.names(POD_LOGS)
    split = [name.split("_") for name in names] if isinstance(names, tuple) else []
    return {parts[2]: (parts[0], parts[1]) for parts in split if len(parts) == 3}

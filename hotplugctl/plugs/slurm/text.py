"""What Slurm's commands print, as values. Pure; raises ValueError, with a sentence, on text that is none of theirs.

Text and not --json: that comes unfiltered (Slurm 22.05 prints every job of the cluster whatever -w says, 5 KB each) and
only where Slurm was built with it. The price is that users name their jobs, line breaks and all, so `job` counts the
lines that can be forged, and `QUEUE_FORMAT` asks for no field that a user writes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .gres import expand, indices, or_none

QUEUE_FORMAT = "%i|%A|%T|%U|%u|%S|%E|%r|%l|%Q|%n|%b"
# A node in one of these gets no new job (scontrol(1), show node; slurm.conf(5), NodeName State).
CLOSED = frozenset({"DRAIN", "DRAINED", "DRAINING", "DOWN", "FAIL", "FAILING", "ERROR"})
HAS_BEGUN = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "CONFIGURING", "RESIZING", "SIGNALING", "STAGE_OUT"})


@dataclass(frozen=True, slots=True)
class Used:
    """Indices of one GRES that a job has on a node."""

    node: str
    name: str
    type: str | None
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """A job as squeue has it; `ref` names it and nothing else (an array's task, not the array)."""

    ref: str
    state: str
    uid: int
    user: str | None
    since: float | None
    after: str | None
    reason: str
    limited: bool
    priority: int
    node: str | None
    gres: tuple[str, str | None] | None


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node: the words of its state, why, its partitions, and by name which GRES indices are in use, and how many.

    Slurm 22.05 lists no indices there for a GRES without types, and counts them only.
    """

    words: frozenset[str]
    reason: str
    partitions: tuple[str, ...]
    used: dict[str, frozenset[int]]
    counts: dict[str, int]
    not_consumed: tuple[str, ...]
    registered: bool        # since slurmctld began; until then it knows no index, and gives none to jobs (22.05)

    @property
    def closed(self) -> bool:
        """Does it get no new job?"""
        return bool(self.words & CLOSED)


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: does it run jobs, for root too, does it give nodes as a whole, and its rank before others."""

    name: str
    up: bool
    root: bool
    whole_nodes: bool
    tier: int


_DETAIL = re.compile(r"(?P<name>[^:,()\s]+)(?::(?P<type>[^:,()\s]+))?:(?P<count>\d+)[KMGTP]?(?:\((?P<inside>[^)]*)\))?")


def used(text: str, node: str) -> list[Used]:
    """`npu:ascend910b:2(IDX:0-1),dsp:1(IDX:3)`: what has no indices (`bandwidth:4K`) is left out.

    A name that should have one and has not, with any type, stays with none.
    """
    found = []
    for match in _DETAIL.finditer(text):
        inside = match["inside"] or ""
        if inside.startswith("IDX:"):
            found.append(Used(node, match["name"], match["type"], indices(inside[4:])))
    given = {one.name for one in found if one.indices}
    return [one for one in found if one.indices or one.name not in given]


_FORGEABLE = ((re.compile(r"^JobId=\d+ ", re.M), 1, 1), (re.compile(r"^   UserId=", re.M), 1, 1),
              (re.compile(r"^   JOB_GRES=", re.M), 0, 1))


def job(text: str) -> tuple[str, tuple[Used, ...]]:
    """`scontrol show job -d` of one job: its name, and the indices it has on each node."""
    for line, least, most in _FORGEABLE:
        if not least <= len(line.findall(text)) <= most:
            raise ValueError("scontrol show job prints lines that may be part of its name or comment")
    name = re.search(r"JobName=(.*?)\n   UserId=", text, re.S)
    if name is None:
        raise ValueError("scontrol show job prints no name")
    block = re.search(r"^   JOB_GRES=.*\n((?:     Nodes=.*\n)*)", text, re.M)
    found: list[Used] = []
    for nodes, detail in re.findall(r"Nodes=(\S+) .*?GRES=(\S*)", block[1]) if block else ():
        for node in expand(nodes):
            found += used(detail, node)
    return name[1], tuple(found)


def queue(text: str) -> tuple[Job, ...]:
    """`squeue -h -r -o QUEUE_FORMAT`."""
    return tuple(_queue_line(line) for line in text.splitlines() if line.strip())


def _queue_line(line: str) -> Job:
    words = [word.strip() for word in line.split("|")]
    if len(words) != 12 or not all(words[number].isdigit() for number in (1, 3, 9)):
        raise ValueError(f"squeue says {line!r}")
    after = re.match(r"afterany:(\d+(?:_\d+)?)", words[6])
    gres = re.match(r"gres[:/]([^:,\s]+)(?::([^:,\s]*[^\d:,\s][^:,\s]*))?(?::\d+)?$", words[11])
    return Job(
        ref=words[0] if "_" in words[0] else words[1],   # a component of a heterogeneous job goes by its own number
        state=words[2], uid=int(words[3]), user=or_none(words[4]),
        since=float(words[5]) if words[5].isdigit() else None, after=after[1] if after else None, reason=words[7],
        limited=words[8] != "UNLIMITED", priority=int(words[9]), node=or_none(words[10]),
        gres=(gres[1], gres[2]) if gres else None,
    )


def node(text: str) -> NodeState:
    """`scontrol show node -d` of one node."""
    state = re.search(r"^ +State=(\S+)", text, re.M)
    if state is None:
        raise ValueError(f"scontrol show node says {text.strip()[:80]!r}")
    reason = re.search(r"^ +Reason=(.*?)(?: \[\S*@[^\]]*\])?$", text, re.M)
    partitions = re.search(r"^ +Partitions=(\S+)", text, re.M)
    in_use = re.search(r"^ +GresUsed=(\S+)", text, re.M)
    has = re.search(r"^ +Gres=(\S+)", text, re.M)
    by_name: dict[str, frozenset[int]] = {}
    counts: dict[str, int] = {}
    for match in _DETAIL.finditer(in_use[1]) if in_use else ():
        counts[match["name"]] = counts.get(match["name"], 0) + int(match["count"])
    for one in used(in_use[1], "") if in_use else ():
        if one.indices:
            by_name[one.name] = by_name.get(one.name, frozenset()) | frozenset(one.indices)
    return NodeState(
        # A mark behind the state tells of its power or its answering (`DOWN*`, `IDLE~`): sinfo(1), node state codes.
        frozenset(word.rstrip("*~#%$@^!-") for word in state[1].split("+")), reason[1] if reason else "",
        tuple(partitions[1].split(",")) if partitions else (), by_name, counts,
        tuple(part.partition(":")[0] for part in (has[1].split(",") if has else ()) if "no_consume" in part),
        re.search(r"SlurmdStartTime=(?:None|Unknown)\b", text) is None,
    )


def partition(text: str) -> Partition:
    """`scontrol show partition` of one partition."""
    words = dict(re.findall(r"(\w+)=(\S+)", text))
    if "PartitionName" not in words:
        raise ValueError(f"scontrol show partition says {text.strip()[:80]!r}")
    tier = words.get("PriorityTier", "1")
    return Partition(
        words["PartitionName"], words.get("State") == "UP", words.get("DisableRootJobs") != "YES",
        words.get("OverSubscribe") == "EXCLUSIVE" or words.get("ExclusiveUser") == "YES",
        int(tier) if tier.isdigit() else 1,
    )


def settings(text: str) -> dict[str, str]:
    """`scontrol show config`, by name."""
    found = dict(re.findall(r"^(\w+)\s*= (.*?)\s*$", text, re.M))
    if "SelectType" not in found:
        raise ValueError(f"scontrol show config says {text.strip()[:80]!r}")
    return found


def sentence(text: str) -> str:
    """The first line of an error that says something, without the command's name before it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "it gives no reason")
    return re.sub(r"^(?:\w+: )?(?:\w+ )?(?:error|fatal): ", "", line)


def denied(text: str) -> bool:
    """Does Slurm refuse for want of rights?"""
    wants = r"permission denied|invalid user id|not permitted|not authorized|operator rights"
    return re.search(wants, text, re.I) is not None


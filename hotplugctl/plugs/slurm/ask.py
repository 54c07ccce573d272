"""Slurm's commands, run: each bounded, with the operator's slurm.conf, answered by a value or by `NoAnswerError`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ...host import Ran
from ...host.child import PATH, run
from ...host.live import Live
from ...model import Unknown
from . import gres, text
from .moves import Place, Seen

PING_S = 4.0
CALL_S = 8.0
TOP = 4294967293    # above every priority that Slurm gives by itself (Slurm 22.05: from 4294901760 down)
T = TypeVar("T")


class NoAnswerError(Exception):
    """Slurm did not answer, or in no words that we know. Its text is the reason."""


class RefusedError(Exception):
    """Slurm answered, and would not. Its text is Slurm's sentence."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """Where a card stands in Slurm: this machine's nodes, the card's places, what cannot be told, what to warn of."""

    nodes: tuple[str, ...]
    places: tuple[Place, ...]
    shared: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    every: tuple[Place, ...] = ()       # of these nodes, other cards' too


class Asking:
    """The questions and orders of one cluster, by its slurm.conf."""

    def __init__(self, host: Live, conf: str) -> None:
        self.conf = conf
        self._host = host

    def _run(self, *argv: str, deadline: float = CALL_S) -> Ran:
        answer = run(argv, deadline, env={
            "SLURM_CONF": self.conf,
            "SLURM_TIME_FORMAT": "%s",      # seconds since the epoch; else local time of nobody knows which zone
            "PATH": f"{PATH}:/opt/slurm/bin:/opt/slurm/sbin",   # Slurm is often a site's own build
        })
        if answer is None:
            raise NoAnswerError(f"there is no {argv[0]} here")
        if isinstance(answer, Unknown):
            raise NoAnswerError(answer.why)
        return answer

    def _ask(self, read: Callable[[str], T], *argv: str) -> T:
        answer = self._run(*argv)
        if answer.status != 0:
            raise NoAnswerError(text.sentence(answer.stderr or answer.stdout))
        try:
            return read(answer.stdout)
        except ValueError as error:
            raise NoAnswerError(str(error)) from error

    def _tell(self, *argv: str) -> str:
        answer = self._run(*argv)
        if answer.status != 0:
            raise RefusedError(text.sentence(answer.stderr or answer.stdout))
        return answer.stdout.strip()

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        self._host.pause(seconds)

    # Questions

    def ping(self) -> None:
        """Is there a slurmctld? At once; every other command blocks for 9 s when there is none."""
        if not isinstance(self._host.real(self.conf), str):     # Slurm would ask the name service for one, for seconds
            raise NoAnswerError(f"{self.conf} is not there, or cannot be read")
        said = self._run("scontrol", "ping", deadline=PING_S)
        if "is UP" not in said.stdout:
            raise NoAnswerError(text.sentence(said.stdout or said.stderr))

    def mapped(self, card_files: tuple[str, ...]) -> Mapped:
        """The places of the card that has these device files."""
        nodes = tuple(self._ask(str.split, "scontrol", "show", "aliases"))
        files = {self._real(file) for file in card_files}
        places: list[Place] = []
        every: list[Place] = []
        shared: list[str] = []
        warnings: list[str] = []
        for node in nodes:
            those, missing = self._gres(node)
            for one in those.devices:
                place = Place(node, one.name, one.type, one.index)
                every.append(place)
                if files & {self._real(file) for file in one.files}:
                    places.append(place)
            shared += [name for name, given in those.shared if files & {self._real(file) for file in given}]
            warnings += [f"gres.conf names {file}, which is not there: restart slurmd and it dies" for file in missing]
            if those.counted:
                warnings.append(
                    f"Slurm counts {', '.join(those.counted)} on {node} without naming device files: "
                    "it cannot tell whether a job with it uses the card"
                )
        return Mapped(nodes, tuple(places), tuple(dict.fromkeys(shared)), tuple(warnings), tuple(every))

    def _gres(self, node: str) -> tuple[gres.Gres, tuple[str, ...]]:
        """The node's GRES, and the files of it that are not there."""
        conf = self._host.text(f"{os.path.dirname(self.conf)}/gres.conf")
        listed = conf if isinstance(conf, str) else ""
        try:
            missing = tuple(
                file for file in gres.files(listed, node) if not isinstance(self._host.real(file), str)
            )
            if missing:     # slurmd -G would wait 20 s for the file, and then give up
                return gres.of_file(listed, node), missing
            answer = self._run("slurmd", "-G", "-N", node)
            found = gres.of_slurmd(answer.stderr + answer.stdout)
        except ValueError as error:
            raise NoAnswerError(str(error)) from error
        if answer.status != 0 and not (found.devices or found.shared or found.counted):
            raise NoAnswerError(f"slurmd -G: {text.sentence(answer.stderr)}")
        return found, ()

    def _real(self, path: str) -> str:
        real = self._host.real(path)
        return real if isinstance(real, str) else os.path.normpath(path)

    def node(self, name: str) -> text.NodeState:
        """One node."""
        return self._ask(text.node, "scontrol", "show", "node", "-d", name)

    def partition(self, name: str) -> text.Partition:
        """One partition."""
        return self._ask(text.partition, "scontrol", "show", "partition", name)

    def settings(self) -> Mapping[str, str]:
        """The cluster's settings, by slurm.conf's names."""
        return self._ask(text.settings, "scontrol", "show", "config")

    def placeholders(self, name: str, uid: int) -> tuple[text.Job, ...]:
        """The jobs of this user that bear exactly this name, and have not ended."""
        jobs = self._ask(text.queue, "squeue", "-h", "-a", "-r", f"--name={name}", "-o", text.QUEUE_FORMAT)
        return tuple(job for job in jobs if job.uid == uid and job.state != "COMPLETING")

    def seen(self, nodes: tuple[str, ...], name: str | None, uid: int) -> tuple[Seen, ...]:
        """All jobs that have something on the nodes, and the placeholders of this name wherever they are."""
        ours = {job.ref: job for job in self.placeholders(name, uid)} if name else {}
        there = self._ask(
            text.queue, "squeue", "-h", "-a", "-r", "-w", ",".join(nodes), "-o", text.QUEUE_FORMAT
        ) if nodes else ()
        found = []
        for job in {**{job.ref: job for job in there}, **ours}.values():
            called, used = self.job(job.ref) if job.state in text.HAS_BEGUN else ("", ())
            # COMPLETING: Slurm has given its indices away, while its processes may still be ending.
            if job.state in text.HAS_BEGUN or job.state == "COMPLETING" or job.ref in ours:
                found.append(Seen(job, called, used, job.ref in ours))
        return tuple(found)

    def job(self, ref: str) -> tuple[str, tuple[text.Used, ...]]:
        """A job's name, and the indices it has; nothing when it has ended meanwhile."""
        answer = self._run("scontrol", "show", "job", "-d", ref)
        if answer.status != 0:
            if "Invalid job id" in answer.stderr:
                return "", ()
            raise NoAnswerError(text.sentence(answer.stderr))
        try:
            return text.job(answer.stdout.strip("\n") + "\n")
        except ValueError as error:
            raise NoAnswerError(f"job {ref}: {error}") from error

    # Orders

    def submit(self, node: str, gres: str, partition: str, name: str, comment: str, after: str | None) -> str:
        """A job that holds one index of the GRES until it is cancelled; it begins after the job `after`, if given."""
        behind = (f"--dependency=afterany:{after}",) if after else ()
        said = self._tell(
            "sbatch", "--parsable", f"--job-name={name}", f"--comment={comment}", f"--partition={partition}",
            f"--nodelist={node}", "--nodes=1", "--ntasks=1", "--mem=16M", f"--gres={gres}:1",
            "--no-requeue", f"--priority={TOP}", "--chdir=/", "--input=/dev/null", "--output=/dev/null", *behind,
            "--wrap=exec sleep infinity",
        )
        ref = said.partition(";")[0]
        if not ref.isdigit():
            raise NoAnswerError(f"sbatch says {said!r}")
        return ref

    def unlimit(self, ref: str) -> None:
        """Let a job run for ever, also in a partition that has a limit: operators may."""
        self._tell("scontrol", "update", f"JobId={ref}", "TimeLimit=UNLIMITED")

    def cancel(self, ref: str) -> None:
        """End a job; one that has ended is one that ends."""
        try:
            self._tell("scancel", ref)
        except RefusedError as refusal:
            if "Invalid job id" not in str(refusal) and "already complet" not in str(refusal):
                raise

    def set_state(self, node: str, state: str, reason: str | None = None) -> None:
        """DRAIN, RESUME or UNDRAIN a node."""
        self._tell(
            "scontrol", "update", f"NodeName={node}", f"State={state}", *([f"Reason={reason}"] if reason else [])
        )

"""A Slurm of one node: real slurmctld and slurmd as root, with any files as devices; no munge, no cgroups, no systemd.

A test uses `Cluster`. As a script it serves a machine of its own, such as the lab's guest, on real device nodes:

    python -m tests.slurm start DIR --guest --name accel /dev/accel/accel0 /dev/accel/accel1
    python -m tests.slurm stop DIR

--guest writes the configuration to /etc/slurm, so that commands find it without SLURM_CONF, and gives the machine a
network address where it has none: Slurm's look-ups (AI_ADDRCONFIG) fail on loopback alone.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

PROGRAMS = ("slurmctld", "slurmd", "scontrol", "sbatch", "scancel", "squeue")
SYSTEM_CONF = Path("/etc/slurm")
NODE = "n1"
CORES = 8
T = TypeVar("T")


def missing() -> list[str]:
    """The programs that are not installed."""
    return [program for program in PROGRAMS if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None]


@dataclass(frozen=True)
class Gres:
    """A line of gres.conf: device files under a name and, mostly, a type."""

    name: str
    files: tuple[str, ...]
    type: str | None = None

    def line(self) -> str:
        kind = f" Type={self.type}" if self.type else ""
        return f"NodeName={NODE} Name={self.name}{kind} File={','.join(self.files)}"

    def count(self) -> str:
        return ":".join([self.name, *([self.type] if self.type else []), str(len(self.files))])


class Cluster:
    """Slurm in `folder`; `conf` is where its configuration lies, by default there too."""

    def __init__(self, folder: Path, gres: Sequence[Gres] = (), *, conf: Path | None = None, more: str = "",
                 seconds: float = 20) -> None:
        self.folder = folder
        self.home = conf or folder
        self.conf = self.home / "slurm.conf"
        self._gres = tuple(gres)
        self._more = more
        self._seconds = seconds

    # Beginning and end

    def start(self) -> None:
        """Both daemons, and the node idle."""
        self._configure()
        try:
            self.start_controller()
            self.start_node()
            self.wait(lambda: self.state() == "IDLE", "the node is idle", self._seconds)
        except BaseException:
            self.stop()
            raise

    def start_controller(self) -> None:
        """slurmctld, answering."""
        self._begin("slurmctld", "-D", "-i")
        self.wait(self.answers, "slurmctld answers", self._seconds)

    def restart_controller(self) -> None:
        """slurmctld, with the node registered: until then it gives jobs no index (22.05)."""
        self.start_controller()
        self.wait(lambda: "SlurmdStartTime=None" not in self.command("scontrol", "show", "node", NODE), "it registered")

    def start_node(self) -> None:
        """slurmd; it may take a moment until slurmctld counts on it."""
        self._begin("slurmd", "-D", "-N", NODE)

    def end_controller(self) -> None:
        """slurmctld ends, and jobs go on. Killed, it would forget what happened in the last minutes (22.05)."""
        self._end("slurmctld", signal.SIGTERM)

    def stop(self) -> None:
        """End the jobs and the daemons, and whatever else was started from this configuration."""
        if self.answers():
            self.end_jobs()
            with suppress(TimeoutError):
                self.wait(lambda: not self.jobs(), "no job is left", 10)
        for daemon in ("slurmd", "slurmctld"):
            self._end(daemon, signal.SIGTERM)
        for pid in self.processes():  # steps outlive slurmd
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(TimeoutError):
            self.wait(lambda: not self.processes(), "all are gone", 5)
        if self.home != self.folder:
            for name in ("slurm.conf", "gres.conf", "cgroup.conf"):
                with suppress(FileNotFoundError):
                    (self.home / name).unlink()

    def _configure(self) -> None:
        for name in ("state", "spool"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.home.mkdir(parents=True, exist_ok=True)
        if self.home != self.folder and self.conf.exists():
            raise FileExistsError(f"{self.conf} is there: this machine has a Slurm of its own")
        host, here = socket.gethostname().partition(".")[0], self.folder
        controller, node = free_ports(2)
        lines = [
            f"ClusterName=t{os.getpid()}", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={controller}",
            "SlurmUser=root", "SlurmdUser=root", "AuthType=auth/none", "CredType=cred/none",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "JobAcctGatherType=jobacct_gather/none",
            "AccountingStorageType=accounting_storage/none", "MpiDefault=none", "MailProg=/bin/true",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_Core", "ReturnToService=2",
            "SlurmdParameters=config_overrides",  # the node claims more cores than the machine has
            "SchedulerParameters=batch_sched_delay=1,bf_interval=1,sched_interval=1", "KillWait=2",
            f"StateSaveLocation={here}/state", f"SlurmdSpoolDir={here}/spool",
            f"SlurmctldPidFile={here}/slurmctld.pid", f"SlurmdPidFile={here}/slurmd.pid",
            f"SlurmctldLogFile={here}/slurmctld.log", f"SlurmdLogFile={here}/slurmd.log",
            f"GresTypes={','.join(sorted({gres.name for gres in self._gres}))}",
            f"NodeName={NODE} NodeHostname={host} NodeAddr=127.0.0.1 Port={node} CPUs={CORES} Sockets=1"
            f" CoresPerSocket={CORES} ThreadsPerCore=1 RealMemory=8000"
            f" Gres={','.join(gres.count() for gres in self._gres)}",
            "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP", self._more,
        ]
        self.conf.write_text("\n".join(lines) + "\n")
        (self.home / "gres.conf").write_text("".join(f"{gres.line()}\n" for gres in self._gres))
        (self.home / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")

    def _begin(self, daemon: str, *arguments: str) -> None:
        with open(self.folder / f"{daemon}.out", "ab") as log:
            process = subprocess.Popen(
                [daemon, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env, cwd=self.folder,
                start_new_session=True,
            )
        (self.folder / f"{daemon}.begun").write_text(f"{process.pid} {_start_time(process.pid)}")
        self.__dict__.setdefault("_processes", {})[daemon] = process

    def _end(self, daemon: str, how: signal.Signals) -> None:
        begun = self.folder / f"{daemon}.begun"
        try:
            pid, since = (int(word) for word in begun.read_text().split())
        except FileNotFoundError:
            return
        begun.unlink()
        process: subprocess.Popen[bytes] | None = self.__dict__.get("_processes", {}).pop(daemon, None)
        if _start_time(pid) == since:
            os.kill(pid, how)
            until = time.monotonic() + 10
            while time.monotonic() < until and _start_time(pid) == since:
                if process is not None and process.poll() is not None:
                    return
                time.sleep(0.02)
            if _start_time(pid) == since:
                os.kill(pid, signal.SIGKILL)
        if process is not None:
            process.wait(5)

    def processes(self) -> list[int]:
        """Processes that were started with our configuration in their environment, but for this one."""
        mark = f"SLURM_CONF={self.conf}".encode()
        found = []
        for name in os.listdir("/proc"):
            with suppress(OSError):
                if name.isdigit() and int(name) != os.getpid():
                    with open(f"/proc/{name}/environ", "rb") as file:
                        if mark in file.read().split(b"\0"):
                            found.append(int(name))
        return found

    # Asking and telling

    @property
    def env(self) -> Mapping[str, str]:
        """An operator's environment."""
        path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        return {"PATH": path, "LC_ALL": "C.UTF-8", "HOME": "/root", "SLURM_CONF": str(self.conf)}

    def command(self, *argv: str, check: bool = True) -> str:
        """What a command of Slurm prints."""
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=30, cwd="/")
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(argv)}: {done.stderr or done.stdout}")
        return done.stdout

    def answers(self) -> bool:
        """Is there a slurmctld?"""
        return self.conf.exists() and "is UP" in self.command("scontrol", "ping", check=False)

    def state(self) -> str:
        """The node's state."""
        found = re.search(r"State=(\S+)", self.command("scontrol", "show", "node", NODE, check=False))
        return found[1] if found else ""

    def reason(self) -> str:
        """Why the node is in it."""
        found = re.search(r"Reason=(.*?)(?: \[.*)?$", self.command("scontrol", "show", "node", NODE), re.MULTILINE)
        return found[1] if found else ""

    def update_node(self, **fields: str) -> None:
        """As an administrator does."""
        self.command("scontrol", "update", f"NodeName={NODE}", *(f"{key}={value}" for key, value in fields.items()))

    def submit(self, *options: str, run: str = "exec sleep infinity", name: str = "user") -> str:
        """A job; its number."""
        return self.command(
            "sbatch", "--parsable", "-n1", "-o", "/dev/null", f"--job-name={name}", *options, "--wrap", run
        ).strip()

    def running(self, *options: str, run: str = "exec sleep infinity", name: str = "user") -> str:
        """A job that has begun; its number."""
        job = self.submit(*options, run=run, name=name)
        self.wait(lambda: self.jobs().get(job, ("",))[0] == "RUNNING", f"job {job} runs")
        return job

    def jobs(self) -> dict[str, tuple[str, str, str]]:
        """Jobs that have not ended: state, name, and the reason for waiting, by number."""
        lines = self.command("squeue", "-h", "-o", "%i|%T|%r|%j").splitlines()
        words = (line.split("|", 3) for line in lines if line.count("|") >= 3)      # a name may have several lines
        return {job: (state, name, why) for job, state, why, name in words}

    def indices(self, job: str, name: str = "npu") -> str:
        """The indices that a job holds, in Slurm's words (`0-1`)."""
        said = self.command("scontrol", "show", "job", "-d", job, check=False)
        found = re.search(rf"GRES=.*?\b{name}[^(]*\(IDX:([^)]*)\)", said)
        return found[1] if found else ""

    def scancel(self, *which: str) -> None:
        """Cancel jobs."""
        self.command("scancel", *which, check=False)

    def end_jobs(self) -> None:
        """Every job of everybody, at once."""
        self.scancel("--full", "--signal=KILL", *self.jobs())
        self.scancel(*self.jobs())

    def clear(self) -> None:
        """No job, and the node in service."""
        self.end_jobs()
        if "DRAIN" in self.state():
            self.update_node(State="RESUME")
        self.wait(lambda: not self.jobs() and self.state() == "IDLE", "the node is idle again")

    @staticmethod
    def wait(condition: Callable[[], T], what: str, seconds: float = 30) -> T:
        """What the condition gives once it is true."""
        until = time.monotonic() + seconds
        while True:
            found = condition()
            if found:
                return found
            if time.monotonic() > until:
                raise TimeoutError(f"not within {seconds:g} s: {what}")
            time.sleep(0.05)


def free_ports(count: int) -> list[int]:
    """Ports of loopback that were free a moment ago."""
    doors = [socket.socket() for _ in range(count)]
    try:
        for door in doors:
            door.bind(("127.0.0.1", 0))
        return [int(door.getsockname()[1]) for door in doors]
    finally:
        for door in doors:
            door.close()


def _start_time(pid: int) -> int | None:
    """Clock ticks since boot at which the process began; None when there is none, or only its remains."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _address() -> None:
    """A dummy interface with an address, where there is nothing but loopback."""
    said = subprocess.run(["ip", "-o", "-4", "address", "show", "scope", "global"], capture_output=True, text=True)
    if said.stdout.strip():
        return
    for command in ("modprobe dummy", "ip link set lo up", "ip link add slurm0 type dummy",
                    "ip address add 192.0.2.1/32 dev slurm0", "ip link set slurm0 up"):
        subprocess.run(command.split(), check=True)


def main() -> None:
    """The script."""
    parser = argparse.ArgumentParser(prog="python -m tests.slurm")
    verbs = parser.add_subparsers(dest="verb", required=True)
    start = verbs.add_parser("start")
    stop = verbs.add_parser("stop")
    for verb in (start, stop):
        verb.add_argument("dir", type=Path)
        verb.add_argument("--guest", action="store_true", help="configuration in /etc/slurm")
    start.add_argument("--name", default="accel", help="name of the GRES")
    start.add_argument("--type", default=None)
    start.add_argument("files", nargs="+")
    given = parser.parse_args()
    folder = given.dir.resolve()
    conf = SYSTEM_CONF if given.guest or (folder / "guest").exists() else None
    if given.verb == "stop":
        Cluster(folder, conf=conf).stop()
        return
    folder.mkdir(parents=True, exist_ok=True)
    if given.guest:
        (folder / "guest").touch()
        _address()
    cluster = Cluster(folder, [Gres(given.name, tuple(given.files), given.type)], conf=conf, seconds=60)
    cluster.start()
    print(f"SLURM_CONF={cluster.conf}")


if __name__ == "__main__":
    main()

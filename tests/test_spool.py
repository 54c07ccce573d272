"""The spool: what was put is there, whatever ended in between; and it never grows without bound."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from hotplugctl.errors import Exit, HotplugError
from hotplugctl.plugs.envelope import Event
from hotplugctl.plugs.spool import Spool

SINKS = ("kafka://a/t", "https://b/")


def event(number: int, size: int = 0) -> Event:
    return Event(f"id-{number}", f"slot-{number % 3}", f'{{"n": {number}, "pad": "{"x" * size}"}}')


def ids(spool: Spool, sink: str = SINKS[0]) -> list[str]:
    return [one.id for one in spool.owed(sink, 1_000_000)]


def python(code: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "var" / "spool.sqlite")


def test_what_was_put_is_there_in_its_order_after_a_restart(path: str) -> None:
    spool = Spool(path)
    spool.put_many([event(n) for n in range(50)], SINKS)
    spool.put(event(50), SINKS)
    spool.close()
    again = Spool(path)
    assert ids(again) == [f"id-{n}" for n in range(51)]
    assert again.owed(SINKS[0], 1) == [event(0)]
    again.close()


def test_an_event_stays_until_each_sink_has_it(path: str) -> None:
    spool = Spool(path)
    spool.put_many([event(n) for n in range(3)], SINKS)
    spool.settle(SINKS[0], ["id-0", "id-2", "never-put"])
    assert (ids(spool, SINKS[0]), ids(spool, SINKS[1])) == (["id-1"], ["id-0", "id-1", "id-2"])
    assert spool.depth() == {SINKS[0]: 1, SINKS[1]: 3}
    spool.settle(SINKS[1], ["id-0", "id-1", "id-2"])
    spool.settle(SINKS[0], ["id-1"])
    assert spool.depth() == {}
    spool.close()
    database = sqlite3.connect(path)
    assert database.execute("SELECT count(*) FROM event").fetchone() == (0,)
    database.close()


def test_an_id_that_waits_is_not_kept_twice(path: str) -> None:
    spool = Spool(path)
    spool.put(event(1), SINKS)
    spool.put_many([event(1), event(2)], SINKS)
    assert ids(spool) == ["id-1", "id-2"]
    spool.close()


def test_every_id_that_was_said_after_its_put_survives_kill_9(path: str) -> None:
    code = """
import sys
from hotplugctl.plugs.envelope import Event
from hotplugctl.plugs.spool import Spool
spool = Spool(sys.argv[1])
for n in range(1_000_000):
    spool.put(Event(f"id-{n}", "", "{}"), ("s",))
    print(f"id-{n}", flush=True)
"""
    process = python(code, path)
    assert process.stdout is not None
    said = [process.stdout.readline().strip() for _ in range(300)]
    process.send_signal(signal.SIGKILL)
    said += process.stdout.read().split()
    process.wait()
    process.stdout.close()
    spool = Spool(path)
    kept = ids(spool, "s")
    assert kept[: len(said)] == said
    assert len(kept) <= len(said) + 1
    spool.close()


def test_a_full_spool_drops_the_oldest_and_counts_them_over_restarts(path: str) -> None:
    spool = Spool(path, limit=100_000)
    for n in range(0, 2000, 100):
        spool.put_many([event(m, size=200) for m in range(n, n + 100)], SINKS)
    kept = ids(spool)
    assert kept == [f"id-{n}" for n in range(2000 - len(kept), 2000)]
    assert 100 < len(kept) < 200
    assert spool.dropped() == 2000 - len(kept)
    spool.close()
    assert os.path.getsize(path) < 300_000
    again = Spool(path, limit=100_000)
    assert again.dropped() == 2000 - len(kept)
    again.put_many([event(2000)], SINKS, announced=again.dropped())
    assert again.dropped() <= 2
    again.close()


def test_a_second_owner_is_refused_and_told_the_pid_of_the_first(path: str) -> None:
    code = """
import sys
from hotplugctl.plugs.spool import Spool
spool = Spool(sys.argv[1])
print("has it", flush=True)
sys.stdin.read()
"""
    first = subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    assert first.stdout.readline() == "has it\n"
    with pytest.raises(HotplugError, match=f"in use.*pid {first.pid}") as caught:
        Spool(path)
    assert caught.value.exit is Exit.REFUSED
    first.kill()
    first.communicate()
    Spool(path).close()


def test_only_the_owner_can_read_the_events(path: str) -> None:
    spool = Spool(path)
    spool.put(event(1), SINKS)
    modes = {name: os.stat(os.path.join(os.path.dirname(path), name)).st_mode & 0o777
             for name in os.listdir(os.path.dirname(path))}
    spool.close()
    assert set(modes.values()) == {0o600}, modes


def filled(path: str) -> int:
    spool = Spool(path)
    spool.put_many([event(n, size=300) for n in range(500)], SINKS)
    spool.close()
    return os.path.getsize(path)


@pytest.mark.parametrize(("at", "what"), [
    (0, b"\0" * 100), (0, b"garbage!" * 20), (18, b"\xff" * 4), (4096, b"\xff" * 4096), (-20000, b"\xaa" * 12000),
])
def test_a_damaged_file_is_moved_aside_and_the_spool_goes_on(path: str, at: int, what: bytes) -> None:
    size = filled(path)
    with open(path, "r+b") as file:
        file.seek(at % size)
        file.write(what)
    said: list[str] = []
    spool = Spool(path, say=said.append)
    assert len(said) == 1
    assert f"moved to {path}.damaged" in said[0]
    assert os.path.getsize(f"{path}.damaged") == size
    spool.put(event(1), SINKS)
    spool.close()
    quiet = Spool(path, say=said.append)
    assert (ids(quiet), len(said)) == (["id-1"], 1)
    quiet.close()


@pytest.mark.parametrize("left", [0, 10, 99, 4096, 5000, 50_000, 100_001])
def test_a_torn_file_never_keeps_the_watch_from_starting(path: str, left: int) -> None:
    filled(path)
    os.truncate(path, left)
    for _ in range(2):
        spool = Spool(path)
        spool.put(event(9000), SINKS)
        assert ids(spool)[-1] == "id-9000"
        spool.close()


def test_a_file_that_is_damaged_while_in_use_is_replaced(path: str) -> None:
    said: list[str] = []
    spool = Spool(path, say=said.append)
    spool.put_many([event(n, size=300) for n in range(3000)], SINKS)
    for end in ("", "-wal"):
        with open(path + end, "r+b") as file:
            file.write(b"\xff" * os.path.getsize(path + end))
    for n in range(3000, 6000, 500):
        spool.put_many([event(m, size=300) for m in range(n, n + 500)], SINKS)
        spool.settle(SINKS[0], ids(spool)[:10])
    assert ids(spool)[-1] == "id-5999"
    assert len(said) == 1
    spool.close()


def test_a_file_of_something_else_is_not_touched(path: str) -> None:
    os.makedirs(os.path.dirname(path))
    Path(path).write_text("root:x:0:0:root:/root:/bin/bash\n" * 20)
    with pytest.raises(HotplugError, match="is no spool") as caught:
        Spool(path)
    assert caught.value.exit is Exit.USAGE
    assert Path(path).read_text().startswith("root:")
    other = f"{path}.other"
    database = sqlite3.connect(other)
    database.execute("CREATE TABLE mine (x)")
    database.close()
    with pytest.raises(HotplugError, match="belongs to another program"):
        Spool(other)


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HotplugError, match="cannot keep events in") as caught:
        Spool(str(tmp_path / "file" / "spool"))
    assert caught.value.exit is Exit.DENIED


def test_a_full_disk_is_an_error_and_the_spool_works_again_once_there_is_room(path: str) -> None:
    # A limit on file sizes is a disk that is full, for this process alone.
    code = """
import resource, sys
from hotplugctl.errors import Exit, HotplugError
from hotplugctl.plugs.envelope import Event
from hotplugctl.plugs.spool import Spool
spool = Spool(sys.argv[1])
spool.put(Event("before", "", "{}"), ("s",))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
failed = 0
for n in range(20):
    try:
        spool.put(Event(f"big-{n}", "", "x" * 20_000), ("s",))
    except HotplugError as error:
        assert error.exit is Exit.FAILED, error
        failed += 1
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
spool.put(Event("after", "", "{}"), ("s",))
owed = [event.id for event in spool.owed("s", 100)]
assert failed and len(owed) == 22 - failed and (owed[0], owed[-1]) == ("before", "after"), (failed, owed)
print("went on")
"""
    process = python(code, path)
    assert process.communicate(timeout=20)[0] == "went on\n"
    assert process.returncode == 0

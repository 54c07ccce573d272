"""Sinks and couriers, against a real HTTP server on loopback and a way to it that can be cut."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hotplugctl.errors import Exit, HotplugError
from hotplugctl.model import Change, ChangeKind
from hotplugctl.output.documents import lines
from hotplugctl.plugs import envelope
from hotplugctl.plugs.courier import Courier
from hotplugctl.plugs.delivery import Delivery
from hotplugctl.plugs.envelope import Event
from hotplugctl.plugs.sinks import open_sinks
from hotplugctl.plugs.spool import Spool

from .broker import Way


class Endpoint(ThreadingHTTPServer):
    """Keeps what it is sent. `answers` are given in turn, then 204; a callable is called instead of answering."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.got: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.answers: list[Any] = []
        self.connections = 0
        self.targets: list[str] = []

    @property
    def ids(self) -> list[str]:
        return [body["id"] for _, body in self.got]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Endpoint

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = self.server.answers.pop(0) if self.server.answers else 204
        if callable(answer):
            answer = answer()
        status, headers = answer if isinstance(answer, tuple) else (answer, {})
        if status < 300:
            self.server.got.append(({k.lower(): v for k, v in self.headers.items()}, body))
            self.server.targets.append(self.path)
        self.send_response(status)
        for name, value in ({"Content-Length": "0"} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if headers.get("Connection") == "close":
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def running(context: ssl.SSLContext | None = None) -> Iterator[Endpoint]:
    server = Endpoint()
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with running() as server:
        yield server


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = Spool(str(tmp_path / "spool.sqlite"))
    yield made
    made.close()


def url(endpoint: Endpoint, scheme: str = "http") -> str:
    return f"{scheme}://127.0.0.1:{endpoint.server_address[1]}/events?team=a"


def event(number: int) -> Event:
    change = Change(id=f"id-{number}", time="2026-11-29T16:24:08.123Z", monotonic=1.0, kind=ChangeKind.ADDED,
                    address="0000:01:00.0", slot="3")
    return envelope.event(change, lines("change", [change]))


@contextmanager
def courier(spool: Spool, entry: Any, said: list[str]) -> Iterator[Courier]:
    [outlet] = open_sinks([entry], "/hotplugctl/node7")
    made = Courier(spool, outlet, said.append)
    made.start()
    try:
        yield made
    finally:
        made.stop()
        assert made.join(5)
        outlet.sink.close()


def give(spool: Spool, courier: Courier, numbers: range) -> None:
    spool.put_many([event(n) for n in numbers], [courier.outlet.name])
    courier.wake()


def until(holds: Callable[[], Any], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.01)


# What a URL may be.

@pytest.mark.parametrize(("entry", "says"), [
    ("ftp://host/x", "no sink for 'ftp'"),
    ("host:80", "no sink for 'host'"),
    ("just words", "no scheme"),
    ("https:///path", "names no host"),
    ("https://host:port/", "[Pp]ort"),
    ("https://host/a b", "must be written as %XX"),
    ("http://example.com/hook", "everybody on the way"),
    ("http://localhost.example.com/hook", "everybody on the way"),
    ("kafka://host", "names no topic"),
    ("kafka://host/a/b", "is not a topic"),
    ("kafka://host:0/t", "not HOST:PORT"),
    ("kafka://:9092/t", "not HOST:PORT"),
    ("kafka://me:secret@host/t", "a login does not go into the URL"),
    ({"url": "kafka://host/t", "options": {"no.such.setting": "1"}}, "no.such.setting"),
    ({"url": "https://host/", "options": {"a": "b"}}, "options are for kafka"),
    ({"url": "https://host/", "cafile": "x"}, "has no 'cafile'"),
    ({"url": "https://host/", "ca": "/no/such.pem"}, "No such file"),
])
def test_a_sink_that_can_never_work_is_one_sentence(entry: Any, says: str) -> None:
    with pytest.raises(HotplugError, match=says) as caught:
        open_sinks([entry], "/h")
    assert caught.value.exit is Exit.USAGE
    assert caught.value.hint
    assert "secret" not in str(caught.value)


def test_a_sink_is_opened_once_and_its_name_has_no_secret() -> None:
    found = open_sinks(["https://me:secret@host/x", "https://host/x", "kafka://b1,b2:9093/t"], "/h")
    assert [outlet.name for outlet in found] == ["https://host/x", "kafka://b1:9092,b2:9093/t"]
    assert found[0].shown == "https://host"
    for outlet in found:
        outlet.sink.close()


# A webhook.

def test_a_webhook_gets_cloudevents_in_order_over_one_connection(endpoint: Endpoint, spool: Spool) -> None:
    said: list[str] = []
    with courier(spool, url(endpoint), said) as one:
        give(spool, one, range(30))
        until(lambda: not spool.depth())
    assert endpoint.ids == [f"id-{n}" for n in range(30)]
    headers, body = endpoint.got[0]
    assert headers["content-type"] == "application/cloudevents+json; charset=UTF-8"
    assert body["data"]["schema"] == "hotplugctl.change/1"
    assert {k: v for k, v in body.items() if k != "data"} == {
        "specversion": "1.0", "id": "id-0", "source": "/hotplugctl/node7", "type": "hotplugctl.change.added",
        "time": "2026-11-29T16:24:08.123Z", "subject": "3", "partitionkey": "3", "datacontenttype": "application/json",
    }
    assert (endpoint.connections, endpoint.targets[0], said) == (1, "/events?team=a", [])


def test_a_refused_event_is_given_up_with_a_message_and_the_others_arrive(endpoint: Endpoint, spool: Spool) -> None:
    said: list[str] = []
    endpoint.answers = [204, 422, 204, 400]
    with courier(spool, url(endpoint), said) as one:
        give(spool, one, range(5))
        until(lambda: not spool.depth())
        assert one.refused == 2
    assert endpoint.ids == ["id-0", "id-2", "id-4"]
    assert len(said) == 1
    assert "event id-1 and 1 more (HTTP 422 Unprocessable Entity): given up" in said[0]


@pytest.mark.parametrize("status", [500, 503, 408, 429, 401, 404, 302])
def test_what_may_pass_is_tried_again_and_said_once(endpoint: Endpoint, spool: Spool, status: int) -> None:
    said: list[str] = []
    endpoint.answers = [204, status, status]
    with courier(spool, url(endpoint), said) as one:
        give(spool, one, range(3))
        until(lambda: not spool.depth())
        until(lambda: len(said) == 2)
        assert one.refused == 0
    assert endpoint.ids == ["id-0", "id-1", "id-2"]
    assert f"takes no events (HTTP {status}" in said[0]
    assert "takes events again" in said[1]


def test_the_endpoint_may_ask_for_time(endpoint: Endpoint, spool: Spool) -> None:
    endpoint.answers = [(429, {"Retry-After": "1"})]
    started = time.monotonic()
    with courier(spool, url(endpoint), []) as one:
        give(spool, one, range(1))
        until(lambda: not spool.depth())
    assert time.monotonic() - started >= 0.8


def test_a_kept_connection_that_was_closed_is_no_outage(endpoint: Endpoint, spool: Spool) -> None:
    said: list[str] = []
    way = Way(endpoint.server_address[1])
    try:
        with courier(spool, f"http://127.0.0.1:{way.port}/", said) as one:
            for n in range(3):
                give(spool, one, range(n, n + 1))
                until(lambda: not spool.depth())
                way.cut()
                way.mend()
    finally:
        way.close()
    assert (endpoint.ids, said) == (["id-0", "id-1", "id-2"], [])


def test_in_an_outage_events_wait_and_then_all_arrive_in_order(endpoint: Endpoint, spool: Spool) -> None:
    said: list[str] = []
    way = Way(endpoint.server_address[1])
    try:
        with courier(spool, f"http://127.0.0.1:{way.port}/", said) as one:
            give(spool, one, range(10))
            until(lambda: not spool.depth())
            way.cut()
            for n in range(10, 40):
                give(spool, one, range(n, n + 1))
            until(lambda: said)
            time.sleep(0.5)
            assert len(said) == 1, "an outage is said once"
            way.mend()
            until(lambda: not spool.depth())
    finally:
        way.close()
    assert endpoint.ids == [f"id-{n}" for n in range(40)]
    assert "refused" in said[0]


def test_a_sink_that_hangs_neither_blocks_the_caller_nor_the_end(endpoint: Endpoint, tmp_path: Path) -> None:
    release = threading.Event()
    endpoint.answers = [lambda: release.wait(20) and 204]
    delivery = Delivery([url(endpoint)], str(tmp_path / "spool"), host="h", say=lambda _: None)
    slowest = 0.0
    for n in range(20):
        started = time.monotonic()
        delivery.hand_over([event(n)])
        slowest = max(slowest, time.monotonic() - started)
    started = time.monotonic()
    assert delivery.close(0.5) == 20
    assert time.monotonic() - started < 2
    assert slowest < 0.5
    release.set()


def test_what_an_earlier_run_did_not_deliver_comes_first(endpoint: Endpoint, tmp_path: Path) -> None:
    path, said = str(tmp_path / "spool"), []
    before = Spool(path)
    before.put_many([event(n) for n in range(3)], [url(endpoint)])
    before.put_many([event(9)], ["kafka://gone/t"])
    before.close()
    delivery = Delivery([url(endpoint)], path, host="h", say=said.append)
    delivery.hand_over([event(3)])
    assert delivery.close(5) == 0
    assert endpoint.ids == ["id-0", "id-1", "id-2", "id-3"]
    assert said == [f"1 events in {path} are owed to a sink that is not configured now: kafka://gone/t"]


def test_two_sinks_do_not_wait_for_each_other(endpoint: Endpoint, tmp_path: Path) -> None:
    with running() as other:
        other.answers = [503] * 1000
        delivery = Delivery([url(endpoint), url(other)], str(tmp_path / "spool"), host="h", say=lambda _: None)
        delivery.hand_over([event(n) for n in range(5)])
        until(lambda: endpoint.ids == [f"id-{n}" for n in range(5)])
        until(lambda: sorted(delivery.depth().values()) == [0, 5])
        assert delivery.close(0.5) == 5


def test_a_login_and_a_token_are_sent_and_a_new_token_is_used_at_once(
    endpoint: Endpoint, spool: Spool, tmp_path: Path
) -> None:
    with courier(spool, url(endpoint).replace("//", "//me:se%40cret@"), []) as one:
        give(spool, one, range(1))
        until(lambda: not spool.depth())
    token = tmp_path / "token"
    token.write_text("first\n")
    with courier(spool, {"url": url(endpoint), "token_file": str(token)}, []) as one:
        give(spool, one, range(1, 2))
        until(lambda: not spool.depth())
        token.write_text("second\n")
        give(spool, one, range(2, 3))
        until(lambda: not spool.depth())
    assert [headers["authorization"] for headers, _ in endpoint.got] == [
        f"Basic {base64.b64encode(b'me:se@cret').decode()}", "Bearer first", "Bearer second"]


def test_certificates_are_verified_and_an_own_authority_can_be_named(spool: Spool, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", key, "-out", certificate, "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    said: list[str] = []
    with running(context) as server:
        with courier(spool, url(server, "https"), said) as one:
            give(spool, one, range(1))
            until(lambda: said)
        assert "CERTIFICATE_VERIFY_FAILED" in said[0]
        assert server.got == []
        with courier(spool, {"url": url(server, "https"), "ca": str(certificate)}, said) as one:
            until(lambda: not spool.depth())
        assert server.ids == ["id-0"]
        wrong_name = url(server, "https").replace("127.0.0.1", "localhost")
        with courier(spool, {"url": wrong_name, "ca": str(certificate)}, said) as one:
            give(spool, one, range(1, 2))
            until(lambda: "not valid for 'localhost'" in said[-1])
        assert server.ids == ["id-0"]

"""Events to a Kafka topic: idempotent producer, acknowledged by all replicas, one key for one slot.

Structured mode: the record's value is the whole CloudEvent, as a webhook gets it, so that it can be handed on, stored
and replayed without its headers. The `ce_` headers of binary mode are there as well, which the binding allows (3.3.3):
who routes or drops duplicates by id need not parse the value.
"""

from __future__ import annotations

import importlib
import logging
import re
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from .envelope import MEDIA_TYPE, Event, attributes, structured
from .sinks import Asked, Outcome, Outlet, wrong

TIMEOUT_S = 5.0     # a send waits that long for its acknowledgements
RENEW_S = 30.0      # without any acknowledgement for so long, the producer is replaced
TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
# What cannot be otherwise without breaking what this sink promises, and how it behaves when the broker is away.
SETTINGS: Mapping[str, Any] = {
    "enable.idempotence": True,
    "acks": "all",
    "message.timeout.ms": 0,                # the spool decides how long to try, not the producer's queue
    "reconnect.backoff.max.ms": 2000,       # 10 s by default: too long for a broker that has come back
    "linger.ms": 5,
    # A snapshot of some hundred cards is larger than the 1 MB of a broker, which counts compressed.
    "compression.type": "gzip",
    "message.max.bytes": 8 << 20,
    "client.id": "hotplugctl",
}
# Answers that speak of the event, not of the broker or of the moment (KafkaError names).
REFUSALS = {"MSG_SIZE_TOO_LARGE", "_MSG_SIZE_TOO_LARGE", "INVALID_MSG", "INVALID_MSG_SIZE", "INVALID_RECORD"}


def open_kafka(asked: Asked) -> Outlet:
    """The sink of kafka://host:port[,host:port]/topic; `options` are librdkafka's, for TLS and logins."""
    url = asked.url
    topic = url.path.lstrip("/")
    servers = [_server(part, url.geturl()) for part in url.netloc.split(",")]
    if "@" in url.netloc:
        raise wrong(url.geturl(), "a login does not go into the URL, which every user of this machine can see",
                    "options: {sasl.username: ..., sasl.password: ...} in the configuration")
    if not TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise wrong(url.geturl(), f"{topic!r} is not a topic" if topic else "it names no topic")
    if asked.token_file is not None:
        raise wrong(url.geturl(), "token_file is for https://", "options: {sasl.password: ...}")
    given = dict(asked.options or {}) | ({"ssl.ca.location": asked.ca} if asked.ca else {})
    settings = {**given, **SETTINGS, "bootstrap.servers": ",".join(servers)}
    return Outlet(
        f"kafka://{','.join(servers)}/{topic}", f"kafka://{','.join(servers)}/{topic}",
        Kafka(topic, settings, asked.source, url.geturl()),
    )


class Kafka:
    """A Sink. What the producer holds when a send ends stays with it: the next send waits for it, repeating nothing."""

    def __init__(self, topic: str, settings: Mapping[str, Any], source: str, url: str = "",
                 *, timeout_s: float = TIMEOUT_S, renew_s: float = RENEW_S) -> None:
        self._library = importlib.import_module("confluent_kafka")
        self._topic = topic
        self._settings = dict(settings)
        self._source = source
        self._timeout_s = timeout_s
        self._renew_s = renew_s
        self._down = False
        self._closing = False
        self._flying: set[str] = set()          # handed to the producer, not reported yet
        self._reports: dict[str, Any] = {}      # id -> the error, or None = acknowledged
        self._last_error = ""
        self._progress = time.monotonic()
        try:
            self._producer = self._new()
        except (self._library.KafkaException, ValueError, TypeError) as error:
            raise wrong(url or topic, _words(error), "options: are the producer's settings of librdkafka") from error

    def send(self, events: Sequence[Event]) -> Outcome:
        """Produce what is not on its way yet, and wait for the delivery reports."""
        if not self._flying:
            self._progress = time.monotonic()
        self._producer.poll(0)  # what it has to tell of an idle time is no news of this turn
        self._down = False
        try:
            for event in events:
                self._produce(event)
        except (self._library.KafkaException, BufferError) as error:
            self._last_error = _words(error)
        wanted = {event.id for event in events}
        until = time.monotonic() + self._timeout_s
        while wanted & self._flying and time.monotonic() < until and not (self._down or self._closing):
            self._producer.poll(0.05)
        told = [(event.id, self._reports.pop(event.id)) for event in events if event.id in self._reports]
        delivered = tuple(id for id, error in told if error is None)
        refused = tuple((id, error.str()) for id, error in told if error is not None and error.name() in REFUSALS)
        if len(delivered) + len(refused) == len(events):
            self._last_error = ""
            return Outcome(delivered, refused)
        failed = [error for _, error in told if error is not None and error.name() not in REFUSALS]
        trouble = failed[0].str() if failed else self._last_error or f"no acknowledgement within {self._timeout_s:g} s"
        self._renew(needed=bool(failed) or time.monotonic() - self._progress > self._renew_s)
        return Outcome(delivered, refused, trouble)

    def close(self) -> None:
        """Give up what is not acknowledged; the spool has it."""
        self._closing = True
        self._producer.purge()

    def _new(self) -> Any:
        quiet = logging.Logger("hotplugctl.kafka")
        quiet.addHandler(logging.NullHandler())
        return self._library.Producer({**self._settings, "error_cb": self._heard}, logger=quiet)

    def _heard(self, error: Any) -> None:
        if error.name() == "_ALL_BROKERS_DOWN":
            self._down = True
        else:
            self._last_error = error.str()

    def _produce(self, event: Event) -> None:
        if event.id in self._flying or event.id in self._reports:
            return
        known = attributes(event, self._source)
        headers = {"content-type": MEDIA_TYPE} | {
            f"ce_{name}": value for name, value in known.items() if name != "datacontenttype"}
        try:
            self._producer.produce(
                self._topic, structured(event, self._source), key=event.key.encode() or None,
                headers=headers, on_delivery=partial(self._reported, event.id),
            )
            self._flying.add(event.id)
        except self._library.KafkaException as error:
            if error.args[0].name() not in REFUSALS:
                raise
            self._reports[event.id] = error.args[0]

    def _reported(self, id: str, error: Any, _message: Any) -> None:
        if id in self._flying:  # else it is the word of a producer that was given up
            self._flying.discard(id)
            self._reports[id] = error
            self._progress = time.monotonic()

    def _renew(self, *, needed: bool) -> None:
        """Another producer, when this one will not recover.

        After a fatal error it refuses everything; when a broker has lost its memory of producers, or the topic was made
        anew, an idempotent one can wait for ever. Sending again what may have arrived is a duplicate of the same id.
        """
        if not needed or self._closing:
            return
        self._flying.clear()
        self._reports.clear()
        self._producer.purge()
        self._producer = self._new()
        self._progress = time.monotonic()


def _server(text: str, url: str) -> str:
    match = re.fullmatch(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:@\[\]/]+)(?::(?P<port>\d{1,5}))?", text.rsplit("@", 1)[-1])
    if match is None or not 0 < int(match["port"] or 9092) < 65536:
        raise wrong(url, f"{text.rsplit('@', 1)[-1]!r} is not HOST:PORT")
    return f"{match['host']}:{match['port'] or 9092}"


def _words(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return str(first.str()) if hasattr(first, "str") else str(error)

"""A Change on its way to other machines: the document as stdout shows it, and the CloudEvents 1.0 envelope around it.

https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md, and its partitioning extension.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ..model import Change

MEDIA_TYPE = "application/cloudevents+json; charset=UTF-8"


@dataclass(frozen=True, slots=True)
class Event:
    """One Change to hand on. `id` is Change.id, `key` what keeps order: equal keys are delivered in the order given."""

    id: str
    key: str
    document: str


def event(change: Change, document: str, path: str = "") -> Event:
    """The event of a change. `path` is the PCI path of its slot, where known: unlike names it never moves."""
    return Event(change.id, path or change.slot or change.address or "", document.rstrip("\n"))


def source(host: str) -> str:
    """What `source` says: id and source together name an event, so that ids need to differ on one machine only."""
    return f"/hotplugctl/{quote(host, safe='')}"


def attributes(event: Event, source: str) -> dict[str, Any]:
    """The context attributes of an event; absent ones are left out, as CloudEvents wants it."""
    document = _document(event)
    found = {
        "specversion": "1.0", "id": event.id, "source": source, "type": f"hotplugctl.change.{document.get('kind')}",
        "time": document.get("time"), "subject": document.get("slot") or document.get("address"),
        "partitionkey": event.key or None, "datacontenttype": "application/json",
    }
    return {name: value for name, value in found.items() if isinstance(value, str)}


def structured(event: Event, source: str) -> bytes:
    """The event in structured JSON mode: attributes and document in one object."""
    return json.dumps({**attributes(event, source), "data": _document(event)}).encode()


def _document(event: Event) -> Mapping[str, Any]:
    value = json.loads(event.document)
    return value if isinstance(value, Mapping) else {}

"""Where Changes go beside the terminal: durable sinks first, then stdout, then metrics, labels and hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from .. import config
from ..host import Host
from ..model import Change, ChangeKind, Device, State
from ..output import documents
from ..plugs import envelope, files, labels, metrics
from ..plugs.delivery import Delivery
from ..plugs.hooks import Hooks, exec_command
from ..plugs.lanes import Lanes
from ..warming import warm

CLOSING_S = 5.0
WARMERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the command line asked for; the configuration adds its sinks and hooks."""

    sinks: Sequence[str] = ()
    metrics_file: str | None = None
    labels_file: str | None = None
    command: str | None = None


class Outlets:
    """Hands each Change to all that want it. What a network sink must not lose is on disk before stdout says it."""

    def __init__(
        self, wanted: Wanted, settings: config.Settings, host: Host, tell: Callable[[Change], None],
        warn: Callable[[str], None],
    ) -> None:
        entries: list[Any] = [*wanted.sinks, *(dict(sink) for sink in settings.sinks)]
        self._delivery = Delivery(entries, settings.spool, host=host.name, say=warn) if entries else None
        self._hooks = Hooks(settings.hooks, exec_command(wanted.command) if wanted.command else (), say=warn)
        self._metrics = metrics.Metrics() if wanted.metrics_file else None
        self._wanted = wanted
        self._tell = tell
        self._warn = warn
        self._labels = ""
        self._settings = settings
        self._host = host
        self._warming = Lanes("warm-up", WARMERS)

    def hand_over(self, change: Change, paths: Mapping[str, str], devices: Sequence[Device]) -> None:
        """One Change to everybody; `paths` are the slots' PCI paths by name, `devices` all that are there now."""
        document = documents.lines("change", [change]).rstrip("\n")
        if self._delivery is not None:
            self._announce_dropped(change)
            self._delivery.hand_over([envelope.event(change, document, paths.get(change.slot or "", ""))])
        self._tell(change)
        if self._metrics is not None and self._wanted.metrics_file is not None:
            self._metrics.observe(change)
            if self._delivery is not None:
                self._metrics.spool_depth, self._metrics.refused = self._delivery.depth(), self._delivery.refused()
                self._metrics.spool_dropped = self._delivery.dropped()
            files.write_whole(self._wanted.metrics_file, metrics.render(self._metrics))
        if self._wanted.labels_file is not None:
            self._write_labels(self._wanted.labels_file, devices)
        self._hooks.hand(change, document)
        device = change.device
        if change.kind is ChangeKind.READY and device is not None and self._settings.warmup:
            self._warming.give(change.address or "", partial(self._warm, device))

    def _warm(self, device: Device) -> None:
        """On a worker: once a boot and binding, after the card was said to be ready."""
        warmed = warm(self._host, device, self._settings)
        if not warmed.passed:
            self._warn(f"the warm-up of {device.address} failed: {warmed.said}")

    def close(self) -> None:
        """Give what was handed over a while to arrive; what a sink still lacks waits in the spool."""
        self._warming.close(CLOSING_S)
        left = self._hooks.close(CLOSING_S)
        if left:
            self._warn(f"hooks did not end for {left} changes")
        if self._delivery is not None and (owed := self._delivery.close(CLOSING_S)):
            self._warn(f"{owed} deliveries are left to the next watch")

    def _announce_dropped(self, change: Change) -> None:
        """Events that found no room in the spool are said, once, as a Change of their own."""
        dropped = self._delivery.dropped() if self._delivery is not None else 0
        if not dropped or self._delivery is None:
            return
        lost = replace(
            change, id=f"{change.id}-dropped", kind=ChangeKind.ERROR, device=None, address=None, slot=None,
            lost=dropped, because=(f"{dropped} events were dropped: the spool is full",), standing=None, devices=None,
        )
        document = documents.lines("change", [lost]).rstrip("\n")
        self._delivery.hand_over([envelope.event(lost, document)], announced=dropped)
        self._tell(lost)

    def _write_labels(self, path: str, devices: Sequence[Device]) -> None:
        text = labels.render([device for device in devices if device.state is State.READY])
        if text != self._labels:
            files.write_whole(path, text)
            self._labels = text

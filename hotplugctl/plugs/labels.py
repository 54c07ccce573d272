"""Labels of a machine's usable devices, as a feature file of node-feature-discovery. Pure.

A feature file has a line `NAMESPACE/NAME=VALUE` for each label of the Kubernetes node, `#` begins a comment, and
`# +expiry-time=` (RFC 3339) says when the lines below it count no more. A file above 64 KiB is ignored as a whole.
https://kubernetes-sigs.github.io/node-feature-discovery/stable/usage/customization-guide.html#local-feature-source
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from ..model import Device, State

NAMESPACE = "feature.node.kubernetes.io"    # the one that node-feature-discovery always may write
PREFIX = "hotplugctl-"
LARGEST = 64 << 10
# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
DOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")


def render(devices: Iterable[Device], expires: str | None = None) -> str:
    """The text of the file: what the devices that are ready have in common, and how many there are of each kind.

    A label KEY: VALUE of the rules becomes `hotplugctl-KEY=VALUE` where all devices that have KEY agree, and
    `hotplugctl-KEY.VALUE=COUNT` in any case; each profile `hotplugctl-PROFILE.ready=COUNT`. A KEY with a namespace of
    its own (`example.com/pool`) keeps it. What Kubernetes allows in no label is a comment instead.
    """
    ready = [device for device in devices if device.state is State.READY]
    lines = ["# written by hotplugctl watch", *([f"# +expiry-time={expires}"] if expires else []), *_labels(ready)]
    kept: list[str] = []
    size = 0
    for line in lines:
        size += len(line.encode()) + 1
        if size > LARGEST:
            break
        kept.append(line)
    return "\n".join(kept) + "\n"


def _labels(ready: list[Device]) -> Iterator[str]:
    profiles = Counter(device.profile for device in ready if isinstance(device.profile, str))
    for profile, count in sorted(profiles.items()):
        yield _line(f"{profile}.ready", str(count))
    pairs = Counter(pair for device in ready for pair in device.labels.items())
    for key in sorted({key for key, _ in pairs}):
        values = sorted(value for other, value in pairs if other == key)
        if len(values) == 1:
            yield _line(key, values[0])
        for value in values:
            yield _line(f"{key}.{value}", str(pairs[key, value]))


def _line(key: str, value: str) -> str:
    domain, _, name = key.rpartition("/") if "/" in key else (NAMESPACE, "", PREFIX + key)
    if DOMAIN.fullmatch(domain) and NAME.fullmatch(name) and (not value or NAME.fullmatch(value)):
        return f"{domain}/{name}={value}"
    told = f"{key}={value}"
    return f"# no label of Kubernetes: {told!a}"

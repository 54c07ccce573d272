"""What should be in a machine, saved and compared: missing, unexpected and exchanged cards, narrower links."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import Exit, HotplugError
from .host import files
from .model import Device, Link

SCHEMA = "hotplugctl.expect/1"
MOST_BYTES = 16 << 20


def save(path: str, devices: Sequence[Device]) -> None:
    """Write what is here to `path`, whole or not at all."""
    if os.path.lexists(path):
        raise HotplugError(
            f"{path} exists", why="what was expected is never overwritten", hint="name another file", exit=Exit.USAGE
        )
    body = {"schema": SCHEMA, "devices": [_entry(device) for device in devices if device.address is not None]}
    try:
        files.write_whole(path, json.dumps(body, indent=2) + "\n")
    except OSError as error:
        raise HotplugError(
            f"cannot write {path}", why=str(error.strerror), hint="name a path that can be written",
            exit=Exit.DENIED if isinstance(error, PermissionError) else Exit.FAILED,
        ) from error


def differences(path: str, devices: Sequence[Device]) -> tuple[str, ...]:
    """How the machine differs from what `path` expects, a sentence each; none = as expected."""
    expected = _read(path)
    on_the_bus = [device for device in devices if device.address is not None]
    here = {_key(_entry(device)): _entry(device) for device in on_the_bus}
    wanted = {_key(entry): entry for entry in expected}
    found = [f"missing: {_words(wanted[key])}" for key in wanted if key not in here]
    found += [f"unexpected: {_words(here[key])}" for key in here if key not in wanted]
    for key in wanted.keys() & here.keys():
        found += _changes(wanted[key], here[key])
    return tuple(sorted(found))


def _entry(device: Device) -> dict[str, Any]:
    """What identifies a card and its place; what could not be looked at is null and compares with nothing."""
    link = device.link if isinstance(device.link, Link) else Link(None, None)
    values = {
        "slot": device.slot, "address": device.address, "vendor_id": device.vendor_id, "device_id": device.device_id,
        "model": device.model, "serial": device.serial, "link_width": link.width,
    }
    return {name: value if isinstance(value, str | int) else None for name, value in values.items()}


def _key(entry: Mapping[str, Any]) -> str:
    """A card's place: its slot where it has one, since bus numbers move; else its address."""
    return f"slot:{entry['slot']}" if entry.get("slot") else str(entry.get("address"))


def _words(entry: Mapping[str, Any]) -> str:
    ids = f"{entry.get('vendor_id')}:{entry.get('device_id')}"
    name = f"{entry['model']} ({ids})" if entry.get("model") else ids
    return f"{_key(entry)} {name}" + (f", serial {entry['serial']}" if entry.get("serial") else "")


def _changes(wanted: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    if (wanted["vendor_id"], wanted["device_id"]) != (here["vendor_id"], here["device_id"]):
        return [f"other card: {_words(here)}, expected {_words(wanted)}"]
    found = []
    if wanted["serial"] and here["serial"] and wanted["serial"] != here["serial"]:
        found.append(f"exchanged: {_words(here)}, expected serial {wanted['serial']}")
    was, runs = wanted["link_width"], here["link_width"]
    if isinstance(was, int) and isinstance(runs, int) and runs < was:
        found.append(f"narrower: {_words(here)} runs x{runs}, was x{was}")
    return found


def _read(path: str) -> list[dict[str, Any]]:
    try:
        body = json.loads(files.read(path, MOST_BYTES))
        if not isinstance(body, dict) or body.get("schema") != SCHEMA:
            raise ValueError(f"its schema is not {SCHEMA}")
        names = ("slot", "address", "vendor_id", "device_id", "model", "serial", "link_width")
        return [{name: entry[name] for name in names} for entry in body["devices"]]
    except OSError as error:
        raise HotplugError(
            f"cannot read {path}", why=str(error.strerror), hint=f"hotplugctl list --save-expect {path}",
            exit=Exit.DENIED if isinstance(error, PermissionError) else Exit.USAGE,
        ) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise HotplugError(
            f"{path} does not say what to expect", why=str(error), hint=f"hotplugctl list --save-expect {path}.new",
            exit=Exit.USAGE,
        ) from error

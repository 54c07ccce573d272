"""The little that is remembered between runs; absent = nothing known, never an error.

Read through the Host, so that a bundle carries it; written only on the live machine, atomically, by root.

    /run/hotplugctl/handshake/<address>.json    the last second handshake of a card
    /run/hotplugctl/writes/<name>.json          a sysfs write whose child may still hang in the kernel
    /run/hotplugctl/lock/<name>                 one writer a device; its content names the owner

Drains have a file of their own, `drain/record.py`.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from .errors import Exit, HotplugError
from .host import Host, files
from .host.child import Child, alive
from .lifecycle import HealthRecord
from .model import Device, Driver, Kind, Maybe, Unknown
from .readers.waits import Write

RUN = "/run/hotplugctl"


def health(host: Host, device: Device, boot_id: Maybe[str]) -> Maybe[HealthRecord]:
    """The last second handshake of the card at this address; None = none is remembered."""
    record = _read(host, f"{RUN}/handshake/{device.address}.json")
    if record is None or isinstance(record, Unknown):
        return record
    try:
        driver = device.driver.name if isinstance(device.driver, Driver) else device.driver
        serial = device.serial  # zeroed by redaction it tells nothing, and boot and driver must do
        same_card = record["serial"] is None or isinstance(serial, Unknown) or serial == record["serial"]
        current = record["boot_id"] == boot_id and record["driver"] == driver and same_card
        age = max(0.0, host.now() - float(record["time"]))
        return HealthRecord(bool(record["passed"]), age, current, str(record.get("said", "")))
    except (KeyError, TypeError, ValueError):
        return Unknown("the health record is damaged", Kind.IO)


def keep_health(device: Device, boot_id: Maybe[str], result: tuple[bool, str], now: float) -> None:
    """Remember a second handshake. Raises HotplugError(DENIED) where it cannot be kept."""
    passed, said = result
    save(f"{RUN}/handshake/{device.address}.json", {
        **identity(device, boot_id), "time": now, "passed": passed, "said": said,
    })


def identity(device: Device, boot_id: Maybe[str]) -> dict[str, Any]:
    """Which card, with which driver, in which boot a record is about."""
    return {
        "address": device.address, "serial": device.serial if isinstance(device.serial, str) else None,
        "driver": device.driver.name if isinstance(device.driver, Driver) else None,
        "boot_id": boot_id if isinstance(boot_id, str) else None,
    }


def _read(host: Host, path: str) -> dict[str, Any] | Unknown | None:
    text = host.text(path)
    if not isinstance(text, str):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return Unknown(f"{path} is damaged", Kind.IO)
    return value if isinstance(value, dict) else Unknown(f"{path} is damaged", Kind.IO)


def remembered(host: Host, path: str) -> dict[str, Any] | None:
    """A record as it was saved; None when there is none that can be read."""
    value = _read(host, path)
    return value if isinstance(value, dict) else None


def binding(device: Device) -> list[str]:
    """What changes when a driver is bound anew: the device's nodes with their numbers."""
    nodes = device.nodes if isinstance(device.nodes, tuple) else ()
    return [f"{node.path} {node.major}:{node.minor}" for node in nodes]


def save(path: str, value: Mapping[str, Any], *, sync: bool = True) -> None:
    """Write a record so that a reader, or a crash, sees the old one or the new one, whole; `sync`: it is on the disk.

    Raises HotplugError(DENIED) where it cannot be kept.
    """
    folder = os.path.dirname(path)
    try:
        _folder(folder, 0o755)
        files.write_whole(path, json.dumps(value), sync=sync)
    except OSError as error:
        denied = error.errno in (errno.EACCES, errno.EPERM)
        raise HotplugError(
            f"cannot keep a record in {folder}", why=str(error.strerror),
            hint="run as root" if denied else f"make {folder} writable, with room in it, then try again",
            exit=Exit.DENIED if denied or error.errno == errno.EROFS else Exit.FAILED,
        ) from error


def _folder(path: str, mode: int) -> None:
    """A folder of ours, with this mode whatever the umask: what is held must be seen by everybody."""
    missing = path
    made = []
    while not os.path.isdir(missing):
        made.append(missing)
        missing = os.path.dirname(missing)
    os.makedirs(path, exist_ok=True)
    for folder in made:
        os.chmod(folder, mode if folder == path else 0o755)


def forget(path: str) -> None:
    """A record is over; one that is gone already is gone."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def cannot_keep(folder: str) -> str | None:
    """Why no record can be kept there; None = one can. Makes nothing."""
    while not os.path.isdir(folder) and folder != "/":
        folder = os.path.dirname(folder)
    return None if os.access(folder, os.W_OK | os.X_OK) else f"{folder} cannot be written"


def begun_write(name: str, target: str, text: str, child: Child, now: float) -> None:
    """Remember a write before it acts, with the child that does it."""
    save(_write_path(name), {
        "target": target, "text": text, "pid": child.pid, "start_time": child.start_time, "time": now,
    })


def unfinished_write(host: Host, name: str) -> tuple[str, Child] | None:
    """A write of an earlier run that still hangs: (the file it writes to, its child); None = there is none.

    The record of a child that has ended is removed.
    """
    record = _read(host, _write_path(name))
    if not isinstance(record, dict):
        return None
    try:
        child = Child(int(record["pid"]), int(record["start_time"]))
        target = str(record["target"])
    except (KeyError, TypeError, ValueError):
        return None
    if alive(child):
        return target, child
    ended_write(name)
    return None


def writes(host: Host) -> tuple[Write, ...]:
    """The writes that were begun and of which no end is recorded; their children may have ended all the same."""
    names = host.names(f"{RUN}/writes")
    found = []
    for name in names if isinstance(names, tuple) else ():
        record = _read(host, f"{RUN}/writes/{name}") if name.endswith(".json") else None
        if not isinstance(record, dict):
            continue
        try:
            target, text = str(record["target"]), str(record["text"])
            found.append(Write(target, text, int(record["pid"]), int(record["start_time"])))
        except (KeyError, TypeError, ValueError):
            continue
    return tuple(found)


def ended_write(name: str) -> None:
    """Forget a write that returned."""
    forget(_write_path(name))


def _write_path(name: str) -> str:
    return f"{RUN}/writes/{file_name(name)}.json"


def file_name(name: str) -> str:
    """A PCI path as a file's name."""
    return name.replace("/", "+")


@contextmanager
def lock(name: str, purpose: str, said: str | None = None) -> Iterator[None]:
    """Hold a device for one writer; `said` is its name for people.

    Raises HotplugError(REFUSED) naming the owner when another run has it.

    The lock goes with the process, however that ends; children of `host/child.py` do not inherit it.
    """
    path = f"{RUN}/lock/{file_name(name)}"
    try:
        # Whoever may open it may lock it: root alone, or anybody could hold up every drain.
        _folder(os.path.dirname(path), 0o700)
        os.chmod(os.path.dirname(path), 0o700)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.fchmod(descriptor, 0o600)
    except OSError as error:
        raise HotplugError(
            f"cannot lock {name}", why=str(error.strerror), hint="run as root", exit=Exit.DENIED
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 200, 0).decode(errors="backslashreplace").strip() or "another run"
            raise HotplugError(
                f"{said or name} is being worked on", why=f"{owner} has it", hint="wait for it to end, then try again",
                exit=Exit.REFUSED,
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"pid {os.getpid()} ({purpose})\n".encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)

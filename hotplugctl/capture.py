"""A machine written down as a bundle, and what a bundle carries beside its answers."""

from __future__ import annotations

from typing import Any

from . import __version__
from .errors import Exit, HotplugError
from .host import Host
from .host.recorder import Recorder
from .host.tree import Bundle
from .look import Look
from .model import Profile
from .readers import pci
from .rules import forms

# Read at every capture, for the rules of tomorrow, even if no reader of today asks.
SUPERSET = ("/proc/iomem", "/proc/cmdline", "/proc/modules", "/proc/interrupts", "/proc/version", "/etc/os-release")
SUPERSET_BYTES = 1 << 20


def profiles_of(host: Host) -> tuple[Profile, ...]:
    """The profiles that travelled in a bundle; none elsewhere."""
    manifest = host.manifest if isinstance(host, Bundle) else {}
    try:
        return tuple(forms.profile_from(plain) for plain in manifest.get("profiles", ()))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HotplugError(
            "cannot use the profiles of the bundle", why=str(error), hint="have it captured again", exit=Exit.UNKNOWN
        ) from error


def recording(host: Host) -> Recorder:
    """The host, with everything it answers remembered."""
    return Recorder(host, f"hotplugctl {__version__}")


def save(seen: Look, dest: str) -> str:
    """Write what was looked at, and the superset, as a bundle; a sentence that says so."""
    host = seen.host
    if not isinstance(host, Recorder):
        raise TypeError("this look was not recorded")
    superset(host)
    host.save(dest, kept(seen))
    return f"wrote {dest} ({'serials, UUIDs and names are aliases' if host.redacted else 'identifiers are kept'})"


def kept(seen: Look) -> dict[str, Any]:
    """What a bundle carries beside the answers: the profiles in force, as data."""
    return {"profiles": [forms.profile_to(profile) for profile in seen.profiles]}


def superset(host: Host) -> None:
    """What every capture holds beside the answers of today's readers: all config space, memory map, kernel log."""
    for path in SUPERSET:
        host.data(path, SUPERSET_BYTES)
    host.log("kernel")
    functions = pci.functions(host)
    for function in functions if isinstance(functions, tuple) else ():
        pci.config(host, function, pci.power(host, function))
        host.text(f"{function.path}/resource")

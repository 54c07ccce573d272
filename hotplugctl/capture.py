"""A machine written down as a bundle, and what a bundle carries beside its answers."""

from __future__ import annotations

from typing import Any

from . import __version__, beside
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
        found = tuple(forms.profile_from(plain) for plain in manifest.get("profiles", ()))
        for profile in found:
            _check(profile)
        return found
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise HotplugError(
            "cannot use the profiles of the bundle", why=str(error), hint="have it captured again", exit=Exit.UNKNOWN
        ) from error


def _check(profile: Profile) -> None:
    """What travelled as data is typed as the loader types what was authored. Raises ValueError or TypeError."""
    words = [
        profile.id, profile.name, *profile.drivers, *profile.passthrough, *profile.classes, *profile.nodes,
        *profile.groups, *profile.models, *profile.models.values(),
    ]
    if not all(isinstance(word, str) for word in words):
        raise TypeError("a word of a profile is no text")
    names = [profile.index, profile.initialised.attribute if profile.initialised else None, *profile.classes]
    if any(name is not None and ("/" in str(name) or str(name) in (".", "..")) for name in names):
        raise ValueError("an attribute of a profile is no name")


def recording(host: Host) -> Recorder:
    """The host, with everything it answers remembered."""
    return Recorder(host, f"hotplugctl {__version__}")


def save(seen: Look, dest: str) -> str:
    """Write what was looked at, and the superset, as a bundle; a sentence that says so."""
    host = seen.host
    if not isinstance(host, Recorder):
        raise TypeError("this look was not recorded")
    superset(host)
    beside.kernel_lines(seen)
    beside.lines_of(seen, None)
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

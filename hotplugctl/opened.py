"""From what --root names to a look at it: the Host, redacted or recorded as asked, and the profiles in force."""

from __future__ import annotations

from . import capture, config
from .host import Host
from .host.opening import open_host
from .look import Look, look
from .rules import load


def look_at(root: str, settings: config.Settings, *, redact: bool, capturing: bool = False, keep: bool = False) -> Look:
    """A look at the machine; a bundle brings its own profiles, and is never redacted twice.

    `capturing`: everything read is remembered for `capture.save`, redacted unless `keep`.
    """
    host: Host = open_host(root)
    profiles = capture.profiles_of(host) or load.profiles(config.authored("vendors.d"))
    if (redact or (capturing and not keep)) and not host.redacted:
        from .host.redact import redactor_for
        from .host.redacted import Redacted

        host = Redacted(host, redactor_for(host))
    return look(capture.recording(host) if capturing else host, settings, profiles)

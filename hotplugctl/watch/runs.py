"""Runs of the watch on disk: --record writes each wake-up with what was read after it, --replay plays it.

One JSON object a line: a header, then a line for each wake-up. A run that was cut short plays up to the cut.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from .. import __version__
from ..errors import Exit, HotplugError
from ..host import Host
from ..host.opening import DEMO, demo_path
from ..host.recorder import Recorder
from ..host.tape import Tape, TapedHost
from ..model import Profile, Uevent
from ..rules import forms
from .loop import Source, Wake
from .scene import Scene

SCHEMA = "hotplugctl.run/1"
MOST_BYTES = 1 << 30


@dataclass
class Recording:
    """A source that writes down what another one says, and what the scene reads after it."""

    source: Source
    scene: Scene
    file: TextIO
    redact: Callable[[str], str] = str
    _host: Host = field(init=False)
    _tape: Tape = field(default_factory=Tape)
    _wake: Wake | None = None

    def __post_init__(self) -> None:
        self._host = self.scene.host

    def header(self, boot: str) -> None:
        """The first line: whose run it is, and the profiles in force."""
        self._write({
            "schema": SCHEMA, "tool": f"hotplugctl {__version__}", "host": self._host.name, "boot": boot,
            "redacted": self._host.redacted, "profiles": [forms.profile_to(p) for p in self.scene.profiles],
        })

    def wait(self, timeout: float) -> Wake:
        """As in Source; the wake-up before is written down now, with all that was read for it."""
        self.finish()
        self._wake = self.source.wait(timeout)
        self.scene.host = Recorder(self._host, "")
        return self._wake

    def finish(self) -> None:
        """Write down the last wake-up."""
        recorder = self.scene.host
        if self._wake is None or not isinstance(recorder, Recorder):
            return
        wake = asdict(self._wake)
        wake["log"] = self.redact(wake["log"])
        self._write({"wake": wake, "frame": self._tape.frame(recorder)})
        self._wake = None

    def _write(self, value: dict[str, Any]) -> None:
        self.file.write(json.dumps(value) + "\n")
        self.file.flush()


@dataclass
class Replay:
    """A recorded run as a source; its host answers as the machine did at that moment."""

    host: TapedHost
    profiles: tuple[Profile, ...]
    boot: str
    _frames: Iterator[tuple[Wake, dict[str, Any]]]
    _last: Wake = field(default_factory=lambda: Wake(0.0, 0.0))

    def wait(self, timeout: float) -> Wake:
        """The next recorded wake-up, at once; after the last one, the end."""
        found = next(self._frames, None)
        if found is None:
            return Wake(self._last.at, self._last.time, ended=True)
        self._last, frame = found
        self.host.play(frame)
        return self._last


def replay(path: str) -> Replay:
    """Open a recorded run. Raises HotplugError(UNKNOWN) when it is none, DENIED when it may not be read."""
    try:
        lines = _text(demo_run() if path == DEMO else path).splitlines()
        header = json.loads(lines[0])
        if header["schema"] != SCHEMA:
            raise ValueError(f"its schema is not {SCHEMA}")
        host = TapedHost(str(header["host"]), bool(header["redacted"]))
        profiles = tuple(forms.profile_from(plain) for plain in header["profiles"])
        return Replay(host, profiles, str(header["boot"]), _frames(path, lines[1:]))
    except OSError as error:
        raise HotplugError(
            f"cannot read the run {path}", why=str(error.strerror), hint="check the path",
            exit=Exit.DENIED if isinstance(error, PermissionError) else Exit.UNKNOWN,
        ) from error
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise HotplugError(
            f"{path} is no recorded run", why=str(error) or "it is empty", hint="hotplugctl watch --record FILE",
            exit=Exit.UNKNOWN,
        ) from error


def demo_run() -> str:
    """Where the recorded run that ships with the package lies."""
    return str(Path(demo_path()).with_name("demo-run.jsonl.gz"))


def _text(path: str) -> str:
    """The run as text; compressed is fine."""
    raw = Path(path).read_bytes()
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = zlib.decompressobj(wbits=31).decompress(raw, MOST_BYTES)
        except zlib.error as error:
            raise ValueError(str(error)) from error
    return raw.decode("utf-8", "replace")


def _frames(path: str, lines: list[str]) -> Iterator[tuple[Wake, dict[str, Any]]]:
    for number, line in enumerate(lines, 2):
        try:
            entry = json.loads(line)
            plain = entry["wake"]
            wake = Wake(**{**plain, "uevents": tuple(Uevent(**event) for event in plain["uevents"])})
            yield wake, entry["frame"]
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines) + 1:
                return  # the last line was cut: the run was ended while it was written
            raise HotplugError(
                f"{path} is damaged", why=f"line {number}: {error}", hint="have it recorded again", exit=Exit.UNKNOWN
            ) from error

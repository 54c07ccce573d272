"""A run of looks on a tape: what each look was answered, written as what changed since the one before."""

from __future__ import annotations

import base64
import json
from typing import Any

from .files import Memory
from .recorder import Recorder
from .tree import SCHEMA, Bundle

EMPTY = {"schema": SCHEMA, "host": "", "taken_at": 0.0, "redacted": False, "answers": {}}


class Tape:
    """Turns the answers of one look after the other into frames."""

    def __init__(self) -> None:
        self._before: dict[str, dict[str, Any]] = {}

    def frame(self, recorder: Recorder) -> dict[str, Any]:
        """What this look was answered that the looks before were not; JSON types only."""
        now = recorder.answered()
        changed = {
            group: {key: value for key, value in answers.items() if self._before.get(group, {}).get(key) != value}
            for group, answers in now.items()
        }
        for group, answers in changed.items():
            self._before.setdefault(group, {}).update(answers)
        return {"now": recorder.now(), **{group: answers for group, answers in changed.items() if answers}}


class TapedHost(Bundle):
    """The machine as it was at the frame that was played last."""

    def __init__(self, name: str, redacted: bool) -> None:
        self._memory = Memory({"/manifest.json": json.dumps(EMPTY).encode()}, {})
        super().__init__(self._memory, "tape")
        self.name = name
        self.redacted = redacted

    def play(self, frame: dict[str, Any]) -> None:
        """Take over a frame. Raises KeyError, TypeError or ValueError for one that is damaged."""
        self._now = float(frame["now"])
        for group, answers in frame.items():
            if group in ("files", "logs"):
                folder = "/root" if group == "files" else "/logs/"
                for key, value in answers.items():
                    self._memory.put(f"{folder}{key}", base64.b64decode(value))
            elif group != "now":
                self._answers[group].update(answers)

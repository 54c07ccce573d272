"""Values as JSON documents with a schema id; see docs of every field in hotplugctl(1)."""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from .. import __version__
from ..errors import HotplugError
from ..model import Gap, Unknown

TOOL = f"hotplugctl {__version__}"


def plain(value: Any) -> Any:
    """A value as JSON types: numbers stay numbers, absent is null, could-not-look is {"unknown": ..., "kind": ...}."""
    if isinstance(value, Unknown):
        return {"unknown": value.why, "kind": value.kind.value}
    if isinstance(value, enum.Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name.rstrip("_"): plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(plain(item) for item in value)
    if isinstance(value, float) and not math.isfinite(value):
        return None     # JSON has no word for it
    return value


def document(name: str, data: Any, *, host: str, taken_at: str, gaps: Sequence[Gap] = (), **more: Any) -> str:
    """The document `hotplugctl.NAME/1` around `data`, as text."""
    body = {
        "schema": schema(name), "tool": TOOL, "host": host, "taken_at": taken_at, "data": plain(data),
        "errors": [{"what": gap.path, "why": gap.reason} for gap in gaps], **plain(more),
    }
    return json.dumps(body, indent=2) + "\n"


def lines(name: str, data: Sequence[Any]) -> str:
    """One object a line, each with its schema."""
    return "".join(json.dumps({"schema": schema(name), **plain(item)}) + "\n" for item in data)


def alone(name: str, data: Any) -> str:
    """A document about no machine."""
    return json.dumps({"schema": schema(name), "tool": TOOL, "data": plain(data)}, indent=2) + "\n"


def error(problem: HotplugError, *, one_line: bool = False) -> str:
    """The error document."""
    body = {
        "code": int(problem.exit), "name": problem.exit.name.lower(), "what": problem.what, "why": problem.why or None,
        "hint": problem.hint or None, **plain(problem.more),
    }
    return json.dumps({"schema": schema("error"), "error": body}, indent=None if one_line else 2) + "\n"


def schema(name: str) -> str:
    """The schema id of a document."""
    return f"hotplugctl.{name}/1"

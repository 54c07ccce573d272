"""Where settings come from: flag, then environment, then file, then default.

Files: `--config` > `$HOTPLUGCTL_CONFIG` > `$XDG_CONFIG_HOME/hotplugctl/config.yaml` > `/etc/hotplugctl/config.yaml`
with `conf.d/*.yaml` > built in. What root obeys only root may have written: the same check holds for the
configuration, for profiles, rules and hooks.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from .errors import Exit, HotplugError
from .model import Device, LogFile

ETC = Path("/etc/hotplugctl")


@dataclass(frozen=True, slots=True)
class LabelRule:
    """Labels that every device gets whose fields match; patterns are shell globs, compared without regard to case."""

    when: Mapping[str, str]
    set: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings in force. Times in seconds. `sources` says of each where it came from."""

    budget_add: float = 3.0
    budget_remove: float = 1.0
    readiness: str | None = None
    labels: tuple[LabelRule, ...] = ()
    slots: Mapping[str, str] = field(default_factory=dict)
    warmup: Mapping[str, Any] = field(default_factory=dict)
    sinks: tuple[Mapping[str, Any], ...] = ()
    hooks: str = "/etc/hotplugctl/hooks.d"
    scheduler: str = "auto"
    spool: str = "/var/lib/hotplugctl/spool.sqlite"
    logs: tuple[LogFile, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)


def settings(given: str | None = None) -> Settings:
    """The settings in force; `given` is --config. Raises HotplugError(USAGE) with every error of every file."""
    found = Settings()
    for path in _files(given):
        trusted(path)
        found = _merge(found, _read(path), str(path))
    for name, variable in _ENVIRONMENT.items():
        value = os.environ.get(variable)
        if value:
            found = _merge(found, {name: _from_environment(name, variable, value)}, variable)
    return found


def authored(folder: str) -> tuple[Path, ...]:
    """The YAML files below /etc/hotplugctl/<folder> (vendors.d, rules.d), each one checked; none is usual."""
    try:
        files = sorted(path for path in (ETC / folder).iterdir() if path.suffix == ".yaml")
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except PermissionError as error:
        raise HotplugError(
            f"cannot read {ETC / folder}", why="permission denied", hint="sudo hotplugctl ...", exit=Exit.DENIED
        ) from error
    for path in files:
        trusted(path)
    return tuple(files)


def trusted(path: Path) -> None:
    """Raises HotplugError unless, for root, the file and every directory above it are root's and closed to others."""
    if os.geteuid() != 0:
        return
    real = path.resolve()
    for part in (real, *real.parents):
        try:
            status = part.stat()
        except OSError:
            return  # opening it will say so
        if status.st_uid != 0 or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise HotplugError(
                f"refusing {path}", why=f"{part} can be written by others than root",
                hint=f"move it where only root can write, such as {ETC}", exit=Exit.USAGE,
            )


def labels(settings: Settings, device: Device) -> dict[str, str]:
    """The labels of a device by the rules of the configuration; later rules win."""
    found: dict[str, str] = {}
    for rule in settings.labels:
        if all(_matches(device, name, pattern) for name, pattern in rule.when.items()):
            found |= rule.set
    return found


def _matches(device: Device, name: str, pattern: str) -> bool:
    value = device.profile if name == "vendor" else getattr(device, name, None)
    return isinstance(value, str | int) and fnmatch.fnmatch(str(value).lower(), pattern.lower())


def _readable(path: Path) -> bool:
    """Is there such a file for this user? A home directory that may not be entered holds no configuration of theirs."""
    try:
        return path.is_file()
    except OSError:
        return False


def _files(given: str | None) -> list[Path]:
    named = given or os.environ.get("HOTPLUGCTL_CONFIG")
    if named:
        if not _readable(Path(named)):
            raise HotplugError(
                f"no configuration file {named}", why="it was named and is not there",
                hint="leave --config (and HOTPLUGCTL_CONFIG) out to use the built-in settings", exit=Exit.USAGE,
            )
        return [Path(named)]
    home = Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")) / "hotplugctl" / "config.yaml"
    if _readable(home):
        return [home]
    main = ETC / "config.yaml"
    try:
        more = sorted((ETC / "conf.d").glob("*.yaml"))
    except PermissionError as error:
        raise HotplugError(
            f"cannot read {ETC}", why="permission denied", hint="run as root", exit=Exit.DENIED
        ) from error
    return ([main] if _readable(main) else []) + more


_ENVIRONMENT = {
    "readiness": "HOTPLUGCTL_READINESS", "scheduler": "HOTPLUGCTL_SCHEDULER", "hooks": "HOTPLUGCTL_HOOKS",
    "spool": "HOTPLUGCTL_SPOOL",
}
_WORDS = {
    "readiness": ("full", "lazy"), "scheduler": ("auto", "none", "slurm", "kubernetes"),
    "kind": ("application", "runtime", "text"),
}


def _from_environment(name: str, variable: str, value: str) -> str:
    if name in _WORDS and value not in _WORDS[name]:
        raise HotplugError(
            f"{variable}={value!r} is not a setting", why=f"it is one of {', '.join(_WORDS[name])}",
            hint=f"unset {variable}", exit=Exit.USAGE,
        )
    return value


def _read(path: Path) -> dict[str, Any]:
    from .rules import shapes

    text = shapes.text
    schema = shapes.record({
        "budgets": shapes.record({"add": shapes.duration, "remove": shapes.duration}),
        "readiness": shapes.one_of(*_WORDS["readiness"]),
        "labels": shapes.list_of(shapes.record(
            {"when": shapes.map_of(text), "set": shapes.map_of(text)}, required=("when", "set")
        )),
        "slots": shapes.map_of(text),
        "warmup": shapes.record({"argv": shapes.list_of(text), "timeout": shapes.duration}, required=("argv",)),
        "sinks": shapes.list_of(shapes.record(
            {"url": text, "ca": text, "token_file": text, "options": shapes.map_of(text)}, required=("url",)
        )),
        "hooks": text,
        "scheduler": shapes.one_of(*_WORDS["scheduler"]),
        "spool": text,
        "logs": shapes.list_of(shapes.record(
            {"path": text, "kind": shapes.one_of(*_WORDS["kind"])}, required=("path",)
        )),
    })
    problems = shapes.Problems()
    node = shapes.compose(problems, path)
    value = schema(problems, node) if node is not None else {}
    problems.check("the configuration cannot be used", "man 5 hotplugctl-config")
    return dict(value)


def _merge(base: Settings, value: dict[str, Any], source: str) -> Settings:
    flat = dict(value)
    for name, seconds in flat.pop("budgets", {}).items():
        flat[f"budget_{name}"] = seconds
    if "labels" in flat:
        flat["labels"] = base.labels + tuple(LabelRule(rule["when"], rule["set"]) for rule in flat["labels"])
    if "slots" in flat:
        flat["slots"] = {**base.slots, **flat["slots"]}
    if "sinks" in flat:
        flat["sinks"] = base.sinks + tuple(flat["sinks"])
    if "logs" in flat:
        flat["logs"] = base.logs + tuple(_log_file(log, source) for log in flat["logs"])
    return replace(base, **flat, sources={**base.sources, **dict.fromkeys(flat, source)})


def _log_file(log: Mapping[str, str], source: str) -> LogFile:
    """Raises HotplugError(USAGE) for a path that is not absolute."""
    if not log["path"].startswith("/"):
        raise HotplugError(
            f"{source}: logs: {log['path']!r} is no absolute path", why="it would depend on where hotplugctl is run",
            hint="logs: [{path: /var/log/serving/*.log, kind: application}]", exit=Exit.USAGE,
        )
    return LogFile(log["path"], log.get("kind", "application"))


def key_of(name: str) -> str:
    """A setting's key as the file writes it."""
    return name.replace("budget_", "budgets.")


def shown(settings: Settings) -> list[tuple[str, str, str]]:
    """(key as in the file, value, where it came from) of every setting, for --show-config."""
    names = [f.name for f in fields(settings) if f.name != "sources"]
    rows = [
        (key_of(name), _plain(getattr(settings, name)), settings.sources.get(name, "built in"))
        for name in names
    ]
    for folder in ("vendors.d", "rules.d"):
        files = authored(folder)
        rows.append((folder, ", ".join(path.name for path in files) or "-", str(ETC / folder)))
    return rows


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}s"
    if isinstance(value, tuple):
        return "; ".join(_plain(item) for item in value) or "-"
    if isinstance(value, LogFile):
        return f"{value.path} ({value.kind})"
    if isinstance(value, LabelRule):
        return f"when {_plain(value.when)} set {_plain(value.set)}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_plain(item)}" for key, item in value.items()) or "-"
    return str(value) if value else "-"

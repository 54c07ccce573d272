"""Programs that a Change starts: --exec, hooks.d/<kind>/, and the warm-up of a card.

Each gets the document on standard input and the facts as HOTPLUGCTL_* variables, a fixed PATH, a process group of its
own, and a deadline. What it prints is shown when it fails.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from ..config import trusted
from ..errors import Exit, HotplugError
from ..host import Ran
from ..host.child import PATH, run
from ..model import Change, Device, Unknown
from ..output.tables import safe
from .lanes import Lanes

DEADLINE_S = 30.0
THREADS = 4


class Hooks:
    """Runs what belongs to a change, in order for one device, never in the caller's thread.

    `folder` has a folder for each kind, whose executables run in the order of their names; `command` is --exec as
    `exec_command` made it, and runs first, for every kind. `say` gets a sentence for each failure, from any thread.
    """

    def __init__(
        self, folder: str, command: Sequence[str] = (), *, say: Callable[[str], None], deadline: float = DEADLINE_S
    ) -> None:
        self._folder = Path(folder)
        self._command = tuple(command)
        self._say = say
        self._deadline = deadline
        self._behind = False
        self._here = os.getcwd()  # what --exec names relative to; the worker's children stand in /
        self._lanes = Lanes("hooks", THREADS)

    def hand(self, change: Change, document: str) -> None:
        """Run what belongs to this change, soon. Returns at once; `document` is its line on stdout."""
        taken = self._lanes.give(change.slot or change.address or "", partial(self._all, change, document))
        if not taken and not self._behind:
            self._say("hooks are too slow: changes pass for which none is run")
        self._behind = not taken

    def close(self, seconds: float) -> int:
        """Wait so long for what was handed over; returns for how many changes hooks were not run to their end."""
        return self._lanes.close(seconds)

    def _all(self, change: Change, document: str) -> None:
        try:
            if self._command:
                self._one(self._command, self._command[-1], self._here, change, document)
            for path in executables(self._folder, change.kind.value):
                try:
                    trusted(path)
                except HotplugError as error:
                    self._say(f"hook not run: {error}")
                    continue
                self._one((str(path),), str(path), "/", change, document)
        except (OSError, ValueError) as error:  # no descriptor left, a character that no environment can hold
            self._say(f"hooks of {change.kind.value} not run: {error}")

    def _one(self, argv: tuple[str, ...], name: str, here: str, change: Change, document: str) -> None:
        answer = run(argv, self._deadline, stdin=document, env=facts(change), cwd=here)
        if why := _failure(answer, self._deadline):
            of = (change.slot and f"slot {change.slot}") or change.address or "this machine"
            self._say(f"{safe(name)} on {change.kind.value} of {of}: {why}")


def executables(folder: str | Path, kind: str) -> list[Path]:
    """In the order of their names; what editors and package managers leave behind is none (run-parts(8))."""
    try:
        found = sorted((Path(folder) / kind).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [
        path for path in found
        if re.fullmatch(r"[A-Za-z0-9_-]+(\.(sh|py))?", path.name) and path.is_file() and os.access(path, os.X_OK)
    ]


def one(folder: str, kind: str, name: str, told: Mapping[str, object], document: str) -> str | None:
    """Run one hook of a drain with the plan on standard input: None = it passed, else why not.

    One that root may not obey did not pass.
    """
    path = Path(folder) / kind / name
    try:
        trusted(path)
        env = {f"HOTPLUGCTL_{key}": _word(value) for key, value in told.items()}
        return _failure(run((str(path),), DEADLINE_S, stdin=document, env=env), DEADLINE_S)
    except (HotplugError, OSError, ValueError) as error:
        return str(error)


def exec_command(text: str) -> tuple[str, ...]:
    """The command of --exec, for a shell, since it is one text. Raises HotplugError(USAGE) for what cannot work.

    Root's may be anywhere that only root can change: a sticky /tmp is no danger to a file in it.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise HotplugError(f"--exec {text!r} is not a command", why=str(error), exit=Exit.USAGE) from error
    if not words:
        raise HotplugError("--exec is empty", hint="--exec 'logger -t hotplug'", exit=Exit.USAGE)
    program = shutil.which(words[0], path=PATH)
    if program is None and "/" in words[0]:
        raise HotplugError(
            f"--exec: {words[0]} cannot be run", why="it is not there, or not executable",
            hint=f"chmod +x {shlex.quote(words[0])}", exit=Exit.USAGE,
        )
    if program is not None:
        _changed_by_root_only(Path(program))
    return ("/bin/sh", "-c", text)


def _changed_by_root_only(program: Path) -> None:
    if os.geteuid() != 0:
        return
    real = program.resolve()
    for part in (real, *real.parents):
        status = part.stat()
        sticky = status.st_mode & stat.S_ISVTX and part is not real
        if status.st_uid != 0 or (status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky):
            raise HotplugError(
                f"--exec: refusing {program}", why=f"{part} can be written by others than root",
                hint=f"chown root {part}; chmod go-w {part}", exit=Exit.USAGE,
            )


def facts(change: Change) -> Mapping[str, str]:
    """What a hook finds in its environment; what is not there, or could not be looked at, is empty.

    None of these is the name of a setting, so that a hook can run hotplugctl itself.
    """
    device = change.device or Device()
    nodes = device.nodes if isinstance(device.nodes, tuple) else ()
    found = {
        "ID": change.id, "TIME": change.time, "KIND": change.kind.value, "ADDRESS": change.address, "SLOT": change.slot,
        "BEFORE": change.before and change.before.value, "AFTER": change.after and change.after.value,
        "EXPECTED": change.expected, "SURE": change.sure, "MISSING": change.missing, "BATCH": change.batch,
        "LOST": change.lost, "DEADLINE_S": change.deadline_s, "PROFILE": device.profile, "MODEL": device.model,
        "SERIAL": device.serial, "NODES": " ".join(node.path for node in nodes),
        **{f"LABEL_{re.sub(r'[^A-Z0-9]', '_', name.upper())}": value for name, value in change.labels.items()},
    }
    return {f"HOTPLUGCTL_{name}": _word(value) for name, value in found.items()}


def warm_up(device: Device, argv: Sequence[str], timeout: float, index: Sequence[str] = ()) -> tuple[bool, str]:
    """Run the warm-up of a card, for each of its chips where `argv` says {index}: (did all pass, what was said)."""
    if any("{index}" in part for part in argv) and not index:
        return False, "the driver gave the card no number to warm up"
    for one in index if any("{index}" in part for part in argv) else ("",):
        words = [part.replace("{address}", device.address or "").replace("{index}", one) for part in argv]
        program = shutil.which(words[0], path=PATH)
        if program is None:
            return False, f"there is no {words[0]} here"
        try:
            trusted(Path(program))
        except HotplugError as error:
            return False, str(error)
        if why := _failure(run((program, *words[1:]), timeout), timeout):
            return False, f"{words[0]}: {why}"
    return True, "passed"


def _word(value: object) -> str:
    if value is None or isinstance(value, Unknown):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return safe(f"{value:g}" if isinstance(value, float) else str(value))


def _failure(answer: Ran | Unknown | None, deadline: float) -> str | None:
    """What went wrong, with the end of what was printed."""
    if isinstance(answer, Unknown):
        return f"did not end within {deadline:g} s" if "did not answer" in answer.why else answer.why
    if answer is None:
        return "cannot be run here"
    if answer.status == 0:
        return None
    how = f"exit {answer.status}" if answer.status > 0 else f"killed by signal {-answer.status}"
    said = (answer.stderr.strip() or answer.stdout.strip())[-500:].splitlines()[-5:]
    return f"{how}: {safe(' | '.join(said))}" if said else how

"""The way in and out: one command line -> one exit code. Errors become a sentence, and a document under -o json."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import typer

from . import show
from .cli import VERBS, app
from .errors import Exit, HotplugError
from .options import Output

# typer's own names for what a wrong command line raises: BadParameter is a UsageError is a ClickException.
_USAGE: Any = typer.BadParameter.__mro__[1]


def run(argv: Sequence[str]) -> int:
    """Run one command line; returns the exit code. Errors become one sentence, and a document under -o json."""
    words = _verb_first(list(argv))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    show.prepare()
    try:
        code = _guarded(words)
        show.flush()
        return code
    except BrokenPipeError:
        show.reader_left()
        return Exit.OK
    except OSError as error:  # a full disk, or a closed stdout: the result could not be handed over
        show.reader_left()
        return _failed([], HotplugError(
            "cannot write the result", why=str(error.strerror), hint="make room, or send it elsewhere",
            exit=Exit.FAILED))


# Common options that take the next word, so that a verb's name there is a value.
_TAKES_A_WORD = {"-o", "--output", "--root", "--config", "--color"}


def _verb_first(words: list[str]) -> list[str]:
    """Common options may stand before the verb; without a verb it is `list` with one line on health."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _TAKES_A_WORD else 1
    if at < len(words):
        return [words[at], *words[:at], *words[at + 1:]]
    if words and words[0] in ("-h", "--help"):
        return words
    return ["list", "--summary", *words]


def _guarded(words: list[str]) -> int:
    try:
        return int(app(words, standalone_mode=False, prog_name="hotplugctl") or 0)
    except HotplugError as error:
        return _failed(words, error)
    except _USAGE as error:
        return _failed(words, _usage(words, error))
    except (KeyboardInterrupt, typer.Abort):
        return _failed(words, HotplugError("interrupted", exit=Exit.INTERRUPTED))
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EBADF) and error.filename is None:
            raise
        return _bug(words, error)
    except Exception as error:  # noqa: BLE001  whatever it is, the person gets one sentence and the way to more
        return _bug(words, error)


def _bug(words: list[str], error: Exception) -> int:
    if "--debug" in words:
        import traceback

        traceback.print_exc()
    return _failed(words, HotplugError(
        "an unexpected error in hotplugctl", why=f"{type(error).__name__}: {error}",
        hint="run it again with --debug, and send what it prints", exit=Exit.BUG))


def _usage(words: list[str], error: Any) -> HotplugError:
    verb_named = f" {words[0]}" if words[0] in VERBS else ""
    why = error.format_message().rstrip(".")
    return HotplugError("wrong usage", why=why, hint=f"hotplugctl{verb_named} --help", exit=Exit.USAGE)


def _failed(words: list[str], error: HotplugError) -> int:
    show.error(error, _form(words))
    return error.exit


def _form(words: list[str]) -> Output | None:
    """The form asked for, read from the words, since what failed may be their parsing; None = some other."""
    asked = [(option, form) for option, form in pairwise(words) if option in ("-o", "--output")]
    spelt = [form for _, form in asked] + [word.split("=")[-1].removeprefix("-o") for word in words]
    for form in show.JSON:
        if form.value in spelt and (form.value not in words or any(form.value == value for _, value in asked)):
            return form
    if "--json" in words or os.environ.get("HOTPLUGCTL_OUTPUT") == "json":
        return Output.json
    return Output.jsonl if os.environ.get("HOTPLUGCTL_OUTPUT") == "jsonl" else None


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))

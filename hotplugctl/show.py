"""The one place that prints: results to stdout, everything else to stderr, each in the form that was asked for."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from .errors import HotplugError
from .options import Color, Common, Output
from .output import documents

if TYPE_CHECKING:
    from .model import Change, Gap, Machine
    from .output.tables import Table

JSON = (Output.json, Output.jsonl)


def rows(
    common: Common, names: tuple[str, str], data: Sequence[Any], table: Callable[[], Table], machine: Machine,
    **more: Any,
) -> None:
    """A list of things as one document or table; `names` are the schemas of the whole and of one line of jsonl."""
    if common.form is Output.json:
        out(documents.document(
            names[0], data, host=machine.host, taken_at=machine.taken_at, gaps=machine.gaps, **more))
    elif common.form is Output.jsonl:
        out(documents.lines(names[1], data))
    else:
        tables(common, [table()])


def value(
    common: Common, name: str, data: Any, pages: Callable[[], Sequence[Table]], machine: Machine,
    gaps: Sequence[Gap] = (),
) -> None:
    """One thing as a document or as pages."""
    if common.form is Output.json:
        out(documents.document(
            name, data, host=machine.host, taken_at=machine.taken_at, gaps=(*machine.gaps, *gaps)))
    elif common.form is Output.jsonl:
        out(documents.lines(name, data if isinstance(data, list) else [data]))
    else:
        tables(common, pages())


def change(common: Common, happened: Change, line: Callable[[Change], str]) -> None:
    """A Change as it happens: an object a line for scripts, a line for people; handed over at once."""
    if common.form in JSON:
        out(documents.lines("change", [happened]))
    else:
        out(line(happened) + "\n")
    flush()


def loose(common: Common, name: str, data: Any, pages: Callable[[], Sequence[Table]]) -> None:
    """Something that is of no machine, such as a setting or an explanation."""
    if common.form in JSON:
        out(documents.alone(name, data))
    else:
        tables(common, pages())


def tables(common: Common, pages: Sequence[Table]) -> None:
    """Tables one below the other, as wide as the terminal; when piped the window does not matter."""
    from .output.tables import render

    terminal = sys.stdout.isatty()
    form = common.form.value if common.form is not Output.auto else "table" if terminal else "plain"
    width = _width() if terminal else None
    out("\n".join(render(page, form, width=width, color=_colored(common)) for page in pages))


def out(text: str) -> None:
    """A result, as it is."""
    sys.stdout.write(text)


def hint(common: Common, text: str) -> None:
    """Something for the person, on stderr; --quiet leaves it out."""
    if not common.quiet:
        _say(text)


def detail(common: Common, text: str) -> None:
    """Something only --verbose asks for, on stderr."""
    if common.verbose:
        _say(text)


def error(problem: HotplugError, form: Output | None) -> None:
    """One clear sentence on stderr: what, why, the next thing to type; under -o json the error document as well."""
    if form in JSON:
        out(documents.error(problem, one_line=form is Output.jsonl))
    said = str(problem)
    stop = "" if said.endswith(("?", ".")) else "."
    _say(said + (f"{stop} Try: {problem.hint}" if problem.hint else ""))


def flush() -> None:
    """Hand over what was printed. Raises BrokenPipeError when the reader has gone."""
    sys.stdout.flush()


def _nowhere() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), "w", encoding="utf-8")


def reader_left() -> None:
    """The reader had enough, and that is success: Python must not try to hand it the rest at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def prepare() -> None:
    """Print whatever comes, also where the terminal's encoding is poor, and where stdout or stderr was closed."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


@contextmanager
def progress(common: Common, what: str) -> Iterator[None]:
    """Say at a terminal what takes longer than a second, and wipe it away again."""
    if common.quiet or not sys.stderr.isatty():
        yield
        return
    shown = threading.Event()

    def say() -> None:
        shown.set()
        sys.stderr.write(f"{what} ...\r")
        sys.stderr.flush()

    timer = threading.Timer(1.0, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if shown.is_set():
            sys.stderr.write("\x1b[K")


def _say(text: str) -> None:
    from .output.tables import safe

    with suppress(OSError):  # a full disk behind stderr changes no result and no exit code
        sys.stderr.write("\n".join(safe(line) for line in f"hotplugctl: {text}".splitlines()) + "\n")
        sys.stderr.flush()


def _width() -> int | None:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except OSError:
        return None


def _colored(common: Common) -> bool:
    """--color, then NO_COLOR and FORCE_COLOR (no-color.org), then whether it is a terminal."""
    if common.color is not Color.auto:
        return common.color is Color.always
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")

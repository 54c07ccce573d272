"""The one place that prints: results to stdout, everything else to stderr, each in the form that was asked for."""

from __future__ import annotations

import os
import pwd
import sys
import termios
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from .errors import HotplugError
from .options import Color, Common, Output
from .output import documents

if TYPE_CHECKING:
    from .model import Change, Gap, Machine
    from .output.live import Board, Drawing
    from .output.tables import Table

JSON = (Output.json, Output.jsonl)
BEAT_S = 0.5     # how soon the live table follows a new size of the terminal; every second beat moves its clocks


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


@contextmanager
def changes(common: Common, limit_s: float) -> Iterator[Callable[[Change], None]]:
    """Tell Changes as they happen: an object a line for scripts, a line for people; handed over at once.

    At a terminal a live table stands below the lines; `limit_s` is the budget of a card that comes.
    """
    from .output import live

    def tell(happened: Change) -> None:
        out(documents.lines("change", [happened]) if common.form in JSON else live.event(happened))
        flush()

    wanted = common.form in (Output.auto, Output.table) and sys.stdout.isatty()
    if not wanted or os.environ.get("TERM", "dumb") == "dumb":
        yield tell
        return
    screen = _Screen(live.Board(limit_s), color=_colored(common), line=live.event)
    _screens.append(screen)
    try:
        yield screen.change
    finally:
        _screens.remove(screen)
        screen.close()


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


def person() -> str:
    """Who is at it, behind sudo too."""
    number = os.getuid()
    try:
        return os.environ.get("SUDO_USER") or pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def ask(common: Common, pages: Sequence[Table], question: str) -> bool | None:
    """Show what would be done, and ask; None = there is nobody to ask. Everything goes to the person, on stderr."""
    from .output.tables import render

    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    for page in pages:
        sys.stderr.write(render(page, "table", width=_terminal()[0], color=_colored(common)))
    sys.stderr.write(f"\n{question} [y/N] ")
    sys.stderr.flush()
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)      # what was typed before the question is no answer to it
    return sys.stdin.readline().strip().lower() in ("y", "yes")


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

    lines = [safe(line) for line in f"hotplugctl: {text}".splitlines()]
    if sys.stderr.isatty():
        lines = [part for line in lines for part in _wrapped(line)]
    said = "\n".join(lines) + "\n"
    with suppress(OSError):  # a full disk behind stderr changes no result and no exit code
        if _screens and sys.stderr.isatty():
            _screens[-1].aside(said)
        else:
            sys.stderr.write(said)
            sys.stderr.flush()


def _wrapped(line: str) -> list[str]:
    """As wide as the terminal, without breaking a word; what to type begins a line of its own."""
    told, between, hint = line.partition(" Try: ")
    parts = [told, *([f"  Try: {hint}"] if between else [])]
    width = max(40, _terminal()[0] - 1)
    return [row for part in parts for row in textwrap.wrap(
        part, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False) or [""]]


class _Screen:
    """The live table at the bottom of the terminal; what is said scrolls away above it.

    Nothing but "cursor up" and "erase below" is asked of the terminal, and the cursor always rests below the table, so
    that whatever ends the watch leaves a usable terminal and the last table. rich.live is not used: it counts lines
    where a terminal that was made narrower has wrapped them into more rows.
    """

    def __init__(self, board: Board, *, color: bool, line: Callable[..., str]) -> None:
        self._board, self._color, self._line = board, color, line
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._size = _terminal()
        self._shown: Drawing | None = None
        self._begun = False              # before the first Change nobody knows what stands where
        self._behind = float("inf")      # the Changes' clock is another one, of a replay perhaps
        threading.Thread(target=self._beats, name="hotplugctl-table", daemon=True).start()

    def change(self, happened: Change) -> None:
        """Say a Change, and what stands now."""
        with self._lock:
            self._begun = True
            self._behind = min(self._behind, _clock() - happened.monotonic)
            self._board.take(happened)
            self._draw(self._line(happened, color=self._color))

    def aside(self, text: str) -> None:
        """Something for stderr, which is the same terminal."""
        with self._lock:
            out(self._erase(_terminal()[0]))
            self._shown = None
            flush()
            sys.stderr.write(text)
            sys.stderr.flush()
            self._draw()

    def close(self) -> None:
        """Leave the last table."""
        self._over.set()
        with self._lock, suppress(OSError):
            self._draw()

    def _beats(self) -> None:
        second = False
        with suppress(OSError, ValueError):     # the terminal has gone; whoever tells the next Change learns it
            while not self._over.wait(BEAT_S):
                second = not second
                with self._lock:
                    due = second and self._board.moving(_clock() - self._behind)
                    if (due or _terminal() != self._size) and not self._over.is_set():
                        self._draw()

    def _erase(self, width: int) -> str:
        rows = self._shown.rows(width) if self._shown is not None else 0
        return f"\x1b[{rows}A\r\x1b[J" if rows else ""

    def _draw(self, said: str = "") -> None:
        if not self._begun:
            return
        self._size = width, height = _terminal()
        table = self._board.draw(
            width, height, _clock() - self._behind, color=self._color, encoding=sys.stdout.encoding)
        out(self._erase(width) + said + table.text)
        flush()
        self._shown = table


_screens: list[_Screen] = []     # the one that is on, if any


def _clock() -> float:
    """Seconds that only run on."""
    return os.times().elapsed


def _terminal() -> tuple[int, int]:
    """Columns and rows; a serial line knows neither."""
    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        columns, rows = 0, 0
    return columns or 80, rows or 24


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

"""A table as a value, and its four forms: `table` for a terminal, `plain` and `markdown` for pipes, `tsv` for scripts.

What machines and logs say is not trusted: control characters, terminal escapes and direction overrides are made
visible in every cell. rich and tabulate are imported by the form that needs them; both cost 50 ms.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..errors import Exit, HotplugError
from ..model import Severity, State, Unknown

FORMS = ("table", "plain", "markdown", "tsv")

STYLES: dict[State | Severity, str] = {
    State.READY: "green", State.INITIALISED: "cyan", State.BOUND: "yellow", State.MAPPED: "yellow",
    State.IDENTIFIED: "yellow", State.DETECTED: "yellow", State.DRAINING: "blue", State.DRAINED: "blue",
    State.ABSENT: "dim", State.REMOVED: "dim", State.FAILED: "bold red",
    Severity.CRITICAL: "bold red", Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column. On a narrow terminal the highest `priority` is dropped first, and 0 never.

    Only a column that `wraps` is broken into lines, down to `least` characters a line: an address never is. `marked`
    columns carry the colour of a row's mark; where no column does, the whole row.
    """

    name: str
    priority: int = 0
    right: bool = False
    wraps: bool = False
    least: int = 24
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row: a cell for each column, and what its colour stands for; the cells say it in words too."""

    cells: tuple[object, ...]
    mark: State | Severity | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows and columns, a title above and notes below. Without rows only `tsv` shows headings.

    `mark` colours the title; `more` says how to see the columns that a narrow terminal hides.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    title: str = ""
    mark: State | Severity | None = None
    more: str = ""


def safe(text: str) -> str:
    r"""The text with everything that does not print made visible: `\x1b`, `\n`, `\u202e`; bytes as `\x80`."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _visible(ord(c)) for c in text)


def _visible(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:      # a byte that was not UTF-8 (surrogateescape, PEP 383)
        code -= 0xDC00
    short = {0x09: r"\t", 0x0A: r"\n", 0x0D: r"\r"}
    if code < 0x100:
        return short.get(code, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def cell(value: object) -> str:
    """A value as a table shows it: `-` = not there, `?` = could not look, else its safe text."""
    match value:
        case None:
            return "-"
        case Unknown():
            return "?"
        case bool():
            return "yes" if value else "no"
        case State() | Severity():
            return str(value.value)
        case float():
            return f"{value:g}"
        case Mapping():
            return ", ".join(f"{cell(key)}={cell(item)}" for key, item in value.items()) or "-"
        case tuple() | list():
            return ", ".join(cell(item) for item in value) or "-"
    return safe(str(value)) or "-"


def render(table: Table, form: str, *, width: int | None = None, color: bool = False) -> str:
    """The table as text that ends with a newline.

    `width` (None = any) and `color` matter to the form `table` only: what is piped does not depend on the window.
    """
    cells = [[cell(value) for value in row.cells] for row in table.rows]
    if form == "tsv":
        lines = [[safe(column.name) for column in table.columns], *cells]
        return "".join("\t".join(line) + "\n" for line in lines)
    if form == "markdown":
        return _markdown(table, cells)
    if form == "plain":
        body = [_grid(table.columns, cells, "plain")] if cells else []
        return "".join(part + "\n" for part in [*_title(table), *body, *map(safe, table.notes)])
    return _terminal(table, cells, width, color)


def _title(table: Table) -> list[str]:
    return [safe(table.title)] if table.title else []


def _grid(columns: Sequence[Column], cells: list[list[str]], style: str) -> str:
    from tabulate import tabulate

    heads = [safe(column.name) for column in columns]
    grid = tabulate(
        cells, heads if any(heads) or style != "plain" else (), tablefmt=style, disable_numparse=True,
        colalign=["right" if column.right else "left" for column in columns],
    )
    return "\n".join(line.rstrip() for line in grid.splitlines())


def _markdown(table: Table, cells: list[list[str]]) -> str:
    parts = [f"### {_quoted(line)}" for line in _title(table)]
    if cells:
        parts.append(_grid(table.columns, [[_quoted(text) for text in row] for row in cells], "github"))
    if table.notes:
        parts.append("\n".join(f"- {_quoted(safe(note))}" for note in table.notes))
    return "\n\n".join(parts) + "\n"


def _quoted(text: str) -> str:
    """Text that Markdown shows as it is, inside a table too."""
    return text.translate({ord(c): f"\\{c}" for c in "|<*`[]"})


def _terminal(table: Table, cells: list[list[str]], width: int | None, color: bool) -> str:
    import io

    from rich.box import Box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    heads = [safe(column.name) for column in table.columns]
    natural = [max(map(cell_len, texts)) for texts in zip(heads, *cells, strict=True)]
    kept, needed = _kept(table.columns, natural, width) if cells else ([], 0)
    hidden = len(table.columns) - len(kept) if cells else 0
    notes = list(map(safe, table.notes))
    if hidden:
        notes.append(f"{hidden} column{'s'[:hidden > 1]} hidden: {table.more or 'a wider terminal, or -o plain'}")
    out = io.StringIO()
    # A row that cannot get narrower is left to the terminal: a broken address is worse than a long line.
    console = Console(
        file=out, width=max(needed, width or sum(natural) + GAP * len(natural)) + GAP, force_terminal=color,
        color_system="standard" if color else None, no_color=not color, highlight=False, markup=False, emoji=False,
        legacy_windows=False,
    )
    for line in _title(table):
        console.print(Text(line, f"bold {STYLES[table.mark]}" if table.mark is not None else "bold"), soft_wrap=True)
    if cells:
        # Plain ASCII, so that it survives a terminal without UTF-8, a ticket and a mail.
        rule = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
        grid = Grid(
            box=rule, show_header=any(heads), show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold"
        )
        marked = any(column.marked for column in table.columns)
        widths = _widths(table.columns, natural, kept, width)
        for at in kept:
            column = table.columns[at]
            grid.add_column(
                Text(heads[at]), justify="right" if column.right else "left", no_wrap=not column.wraps,
                overflow="fold", width=widths[at],
            )
        for row, texts in zip(table.rows, cells, strict=True):
            style = STYLES[row.mark] if row.mark is not None else ""
            grid.add_row(*(
                Text(texts[at], style if table.columns[at].marked or not marked else "") for at in kept
            ))
        console.print(grid, crop=False)
    for note in notes:
        console.print(Text("\n".join(textwrap.wrap(note, width or 10**6, break_long_words=False))), soft_wrap=True)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


GAP = 2      # between columns: one of padding, one of the rule


def _kept(columns: Sequence[Column], natural: list[int], width: int | None) -> tuple[list[int], int]:
    """Which columns are shown in `width` characters, and how many characters they need at least."""
    least = [min(n, c.least) if c.wraps else n for c, n in zip(columns, natural, strict=True)]
    kept = list(range(len(columns)))

    def needed() -> int:
        return sum(least[at] for at in kept) + GAP * (len(kept) - 1)

    while width is not None and needed() > width:
        # The least important; of two alike the one further right.
        worst = max(kept, key=lambda at: (columns[at].priority, at))
        if columns[worst].priority == 0:
            break
        kept.remove(worst)
    return kept, needed()


def _widths(columns: Sequence[Column], natural: list[int], kept: list[int], width: int | None) -> dict[int, int]:
    """How wide each column is: as wide as it is, or the widest that wrap made narrower, down to their least.

    rich's own shares may come out wider than there is room, and then it cuts letters off.
    """
    widths = {at: natural[at] for at in kept}
    while width is not None and sum(widths.values()) + GAP * (len(kept) - 1) > width:
        widest = max((at for at in kept if columns[at].wraps and widths[at] > columns[at].least),
                     key=lambda at: widths[at], default=None)
        if widest is None:
            break
        widths[widest] -= 1
    return widths


def only(table: Table, names: Sequence[str]) -> Table:
    """The table with these columns, in this order; one that was asked for is never dropped.

    Raises HotplugError naming the columns there are.
    """
    at = {column.name: index for index, column in enumerate(table.columns)}
    if unknown := [name for name in names if name not in at]:
        raise HotplugError(
            f"no column named {', '.join(unknown)}", why=f"there are {', '.join(at)}", exit=Exit.USAGE,
        )
    picked = [at[name] for name in names]
    return replace(
        table, columns=tuple(replace(table.columns[index], priority=0) for index in picked),
        rows=tuple(replace(row, cells=tuple(row.cells[index] for index in picked)) for row in table.rows),
    )

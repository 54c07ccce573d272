"""Tables: readable at any width, the same words with and without colour, and safe to look at."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from hotplugctl.errors import HotplugError
from hotplugctl.model import NOT_ASKED, Severity, State
from hotplugctl.output.tables import FORMS, STYLES, Column, Row, Table, cell, only, render, safe

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
MISSING = "its second handshake: npu-smi info -t health -i 3 did not answer within 5 seconds; the firmware still boots"

CARDS = Table(
    (
        Column("address"), Column("state", marked=True), Column("model", 1), Column("slot", 2), Column("link", 3),
        Column("driver", 4), Column("numa", 6, right=True), Column("serial", 7), Column("missing", 5, wraps=True),
    ),
    (
        Row(("0000:17:00.0", State.READY, "A100 PCIe 80GB", "3", "16 GT/s x16", "nvidia", 0, None, None), State.READY),
        Row(("10000:e1:00.0", State.BOUND, "Ascend 910B", "12-1", "32 GT/s x8", "devdrv_device_driver", 1, NOT_ASKED,
             MISSING), State.BOUND),
        Row((None, State.FAILED, None, "7", None, None, None, None, "power fault"), State.FAILED),
    ),
    notes=("1 of 3 ready; " + "two need a look, and this line is longer than a narrow terminal has columns for",),
    title="Accelerators of node-17",
)


def test_a_terminal_of_80_columns_shows_every_card_within_80_columns():
    text = render(CARDS, "table", width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "columns hidden: a wider terminal, or -o plain" in text
    assert text.splitlines()[:4] == [
        "Accelerators of node-17",
        "address        state   model           slot  link         driver",
        "------------------------------------------------------------------------------",
        "0000:17:00.0   ready   A100 PCIe 80GB  3     16 GT/s x16  nvidia",
    ]


def test_a_terminal_of_40_columns_keeps_address_and_state():
    lines = render(CARDS, "table", width=40).splitlines()
    assert max(map(len, lines)) <= 40
    assert lines[1].split() == ["address", "state", "model"]
    assert any(line.startswith("10000:e1:00.0  bound") for line in lines)
    assert any(line.startswith("6 columns hidden: ") for line in lines)


def test_a_terminal_of_200_columns_hides_nothing():
    text = render(CARDS, "table", width=200)
    assert "hidden" not in text
    assert max(map(len, text.splitlines())) <= 200
    assert all(column.name in text.splitlines()[1] for column in CARDS.columns)


@pytest.mark.parametrize("width", range(1, 160))
def test_no_width_breaks_an_address_or_loses_a_card(width):
    text = render(CARDS, "table", width=width)
    for whole in ("0000:17:00.0", "10000:e1:00.0", "ready", "bound", "failed"):
        assert whole in text


@pytest.mark.parametrize("width", [80, 120, 140, 160, 200, None])
def test_what_wraps_loses_no_word(width):
    table = only(CARDS, ["address", "missing"])
    words = " ".join(line[13:].strip() for line in render(table, "table", width=width).splitlines())
    assert MISSING in words


@pytest.mark.parametrize("width", [40, 80, 200, None])
def test_colour_is_never_the_only_carrier(width):
    plain, coloured = (render(CARDS, "table", width=width, color=color) for color in (False, True))
    assert ESCAPE.search(plain) is None
    assert ESCAPE.search(coloured) is not None
    assert [line.rstrip() for line in ESCAPE.sub("", coloured).splitlines()] == plain.splitlines()


def test_ready_is_green_and_failed_is_red_and_only_the_marked_cell_is_coloured():
    text = render(CARDS, "table", color=True)
    assert "\x1b[32mready" in text
    assert "\x1b[1;31mfailed" in text
    assert "\x1b[32m0000" not in text
    whole = Table((Column("a"), Column("b")), (Row(("x", "y"), Severity.WARNING),))
    assert render(whole, "table", color=True).count("\x1b[33m") == 2


def test_every_state_and_severity_has_a_style():
    assert set(STYLES) == {*State, *Severity}


def test_what_is_piped_does_not_depend_on_the_window_or_on_colour():
    for form in ("plain", "markdown", "tsv"):
        assert render(CARDS, form, width=40, color=True) == render(CARDS, form)
        assert "\x1b" not in render(CARDS, form)


def test_tsv_is_headings_and_rows_and_nothing_else():
    lines = render(CARDS, "tsv").splitlines()
    assert [line.count("\t") for line in lines] == [8] * 4
    assert lines[2].split("\t")[:2] == ["10000:e1:00.0", "bound"]
    assert lines[3].split("\t")[:3] == ["-", "failed", "-"]


def test_plain_is_columns_of_text_with_title_and_notes():
    lines = render(CARDS, "plain").splitlines()
    assert lines[0] == "Accelerators of node-17"
    assert lines[1].split() == [column.name for column in CARDS.columns]
    assert lines[-1].startswith("1 of 3 ready")
    assert not any(line.endswith(" ") for line in lines)


def test_markdown_quotes_what_would_break_its_table():
    text = render(Table((Column("a|b"),), (Row(("x|y <b> `z`",)),), notes=("see [1]",)), "markdown")
    assert r"x\|y \<b> \`z\`" in text
    assert text.splitlines()[-1] == r"- see \[1\]"
    assert all(line.startswith("|") and line.endswith("|") for line in text.splitlines()[:3])


@pytest.mark.parametrize("form", FORMS)
def test_an_empty_table_is_its_notes(form):
    text = render(Table((Column("address"),), notes=("no accelerators",)), form)
    assert text.endswith("\n")
    assert ("no accelerators" in text) is (form != "tsv")
    assert ("address" in text) is (form == "tsv")


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2J\x1b]0;owned\x07", r"\x1b[2J\x1b]0;owned\x07"), ("a\r\nb\tc", r"a\r\nb\tc"), ("\x9b31m", r"\x9b31m"),
        ("gpj\u202eexe", r"gpj\u202eexe"), ("\u2066x\u2069", r"\u2066x\u2069"), ("a\u200bb", r"a\u200bb"),
        (b"\xff\xfe".decode(errors="surrogateescape"), r"\xff\xfe"), ("\x7f\x00", r"\x7f\x00"),
        ("Ünïcode 卡", "Ünïcode 卡"), ("\u2028", r"\u2028"), ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_does_not_print_is_made_visible(hostile, shown):
    assert safe(hostile) == shown
    assert cell(hostile) == shown


HOSTILE = "\x1b[31m[bold]\x9b\u202e\r\n\t:smile:\x00\udcff"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("color", [False, True])
def test_no_form_lets_a_hostile_cell_title_heading_or_note_through(form, color):
    table = Table((Column(HOSTILE), Column("b", wraps=True)), (Row((HOSTILE, HOSTILE * 9)),), (HOSTILE,), HOSTILE)
    text = ESCAPE.sub("", render(table, form, width=60, color=color)) if color else render(table, form, width=60)
    assert not set(text) - {"\n", "\t"} & {chr(c) for c in (*range(0x20), 0x7F, 0x9B, 0x202E, 0xDCFF)}
    assert "\t" not in text or form == "tsv"
    assert ":smile:" in text
    text.encode()


def test_a_value_shows_absent_and_unknown_apart():
    assert [cell(v) for v in (None, NOT_ASKED, "", True, False, 16.0, 2.5, 8, ("a", None), {"k": 1})] == [
        "-", "?", "-", "yes", "no", "16", "2.5", "8", "a, -", "k=1",
    ]


def test_columns_that_were_asked_for_are_kept_in_their_order():
    lines = render(only(CARDS, ["serial", "address"]), "table", width=10).splitlines()
    assert lines[1].split() == ["serial", "address"]
    with pytest.raises(HotplugError, match="no column named adress"):
        only(CARDS, ["adress"])


def test_wide_characters_keep_their_columns_straight():
    table = Table((Column("model"), Column("b")), (Row(("昇腾910", "x")), Row(("plain", "y"))))
    lines = render(table, "table", width=80).splitlines()
    assert lines[2] == "昇腾910  x"
    assert lines[3] == "plain    y"


@pytest.mark.parametrize(
    ("form", "absent"),
    [("table", {"tabulate"}), ("plain", {"rich"}), ("markdown", {"rich"}), ("tsv", {"rich", "tabulate"})],
)
def test_a_form_imports_only_what_it_needs(form, absent):
    code = (
        "import sys; from hotplugctl.output.tables import *\n"
        f"render(Table((Column('a'),), (Row(('x',)),)), {form!r}); print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not absent & set(run.stdout.split())


def test_no_letter_is_lost_at_any_width() -> None:
    text = "announce that it is undone, then bind labaccel again and look whether it took"
    words = text.split(" ")
    columns = (Column("STEP"), Column("WHY", wraps=True, least=8), Column("TAKEN BACK BY", wraps=True, least=16))
    row = Row((words[0], " ".join(words[1:8]), " ".join(words[5:])))
    wanted = sorted("".join(str(value) for value in row.cells).replace(" ", ""))
    for width in range(40, 120):
        body = render(Table(columns, (row,)), "table", width=width).split("\n", 2)[2]
        assert sorted("".join(body.split())) == wanted, width

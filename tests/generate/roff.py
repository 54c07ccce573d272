"""A manual page, written line by line in the man(7) macros.

Prose is marked up lightly: `this` is typed as it stands (bold), *that* is put in its place (italic).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hotplugctl import __version__
from hotplugctl.errors import Exit

_MARKUP = re.compile(r"`([^`]+)`|\*([A-Za-z][^*]*)\*")
_SPECIAL = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}


class Page:
    """One page; `str` is its text."""

    def __init__(self, name: str, section: int, summary: str) -> None:
        self._lines = [
            r".\" Made by `python -m tests.generate`; do not edit.",
            ".nr HY 0",  # no word of a command line is to be hyphenated
            f'.TH {_literal(name.upper())} {section} "" "hotplugctl {__version__}" "hotplugctl manual"',
            ".ad l",
        ]
        self.section("name")
        self._lines.append(f"{_literal(name)} \\- {_literal(summary)}")

    def section(self, title: str) -> None:
        """A heading."""
        self._lines.append(f".SH {title.upper()}")

    def sub(self, title: str) -> None:
        """A heading below it."""
        self._lines.append(f".SS {_literal(title)}")

    def text(self, *paragraphs: str) -> None:
        """Paragraphs of marked-up prose, a sentence a line."""
        for paragraph in paragraphs:
            self._lines.append(".PP")
            self._lines += _sentences(paragraph)

    def item(self, term: str, *paragraphs: str) -> None:
        """A term, and what it means, indented below it."""
        self._lines += [".TP", _marked(term)]
        for number, paragraph in enumerate(paragraphs):
            self._lines += [".IP"] if number else []
            self._lines += _sentences(paragraph)

    def block(self, lines: Iterable[str]) -> None:
        """Lines as they are: examples, diagrams, tables."""
        self._lines += [".PP", ".RS 4", ".EX", *(_safe(_literal(line)) for line in lines), ".EE", ".RE"]

    def synopsis(self, command: str, parts: Sequence[str]) -> None:
        """A command and its parts, which may be broken between lines."""
        whole = [_safe(_marked(part)).replace(" ", r"\ ") for part in parts]
        self._lines += [f'.SY "{_literal(command)}"', *(rf"{part}\&" for part in whole), ".YS"]

    def exit_status(self) -> None:
        """The exit codes, as errors.Exit has them."""
        self.section("exit status")
        self.text("The codes are the same for every verb:")
        for code in Exit:
            self.item(f"`{int(code)}` ({code.name.lower()})", f"{code.meaning}.")

    def examples(self, examples: Sequence[tuple[str, str]]) -> None:
        """What each command does, and the command."""
        self.section("examples")
        for why, command in examples:
            if why:
                self.text(why)
            self.block([command])

    def see_also(self, *pages: str) -> None:
        """Other pages: `hotplugctl(1)`."""
        self.section("see also")
        shown = [re.sub(r"(.+)\((\d)\)", lambda m: rf"\fB{_literal(m[1])}\fR({m[2]})", page) for page in pages]
        self._lines += [*(f"{page}," for page in shown[:-1]), shown[-1]]

    def __str__(self) -> str:
        text = "\n".join(self._lines) + "\n"
        text.encode("ascii")  # groff reads others only after a preprocessor
        return text


def _sentences(paragraph: str) -> list[str]:
    """One sentence a line: how groff learns where they end, and how a change shows as a line."""
    return [_safe(_marked(line)) for line in re.split(r"(?<=[\w)`*][.:?]) (?=[A-Z`*])", " ".join(paragraph.split()))]


def _marked(prose: str) -> str:
    found, end = [], 0
    for match in _MARKUP.finditer(prose):
        found.append(_literal(prose[end:match.start()]))
        found.append(rf"\fB{_literal(match[1])}\fR" if match[1] is not None else rf"\fI{_literal(match[2])}\fR")
        end = match.end()
    return "".join([*found, _literal(prose[end:])])


def _literal(text: str) -> str:
    return "".join(_SPECIAL.get(char, char) for char in text)


def _safe(line: str) -> str:
    """A dot or an apostrophe at the start of a line would be a request."""
    return rf"\&{line}" if line.startswith((".", "'")) else line

"""The options every verb has, and the words that options are written in (durations, sizes)."""

from __future__ import annotations

import enum
import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

from . import __version__
from .errors import Exit, HotplugError


class Output(str, enum.Enum):
    """Forms of the result."""

    auto = "auto"
    table = "table"
    plain = "plain"
    markdown = "markdown"
    tsv = "tsv"
    json = "json"
    jsonl = "jsonl"
    html = "html"


HAS_PAGE = "diagnose"       # the verb that has a page


class Color(str, enum.Enum):
    """When to colour."""

    auto = "auto"
    always = "always"
    never = "never"


def _version(asked: bool) -> None:
    if asked:
        from . import show

        show.out(f"hotplugctl {__version__}\n")
        raise typer.Exit


@dataclass(frozen=True, slots=True)
class Common:
    """The common options of a run. The annotations are what typer, the man pages and the completions are made from."""

    output: Annotated[Output, typer.Option(
        "--output", "-o", envvar="HOTPLUGCTL_OUTPUT",
        help="Form of the result; auto is a table at a terminal, plain when piped; html a page (diagnose).")
    ] = Output.auto
    as_json: Annotated[bool, typer.Option("--json", help="The same as -o json.")] = False
    root: Annotated[str, typer.Option(
        envvar="HOTPLUGCTL_ROOT", metavar="PATH",
        help="Look at a bundle, a sosreport, a tree or an lspci -xxxx dump instead of this machine; demo ships.")] = "/"
    config: Annotated[str | None, typer.Option(
        metavar="FILE", help="Configuration to use instead of the usual.")] = None
    redact: Annotated[bool, typer.Option(
        "--redact", envvar="HOTPLUGCTL_REDACT", help="Serials, UUIDs and host names as stable aliases.")] = False
    color: Annotated[Color, typer.Option(envvar="HOTPLUGCTL_COLOR", help="When to colour.")] = Color.auto
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Errors only on stderr.")] = False
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="More on stderr.")] = False
    debug: Annotated[bool, typer.Option("--debug", help="Tracebacks.")] = False

    @property
    def form(self) -> Output:
        """The form asked for, --json included."""
        return Output.json if self.as_json else self.output


_VERSION = inspect.Parameter(
    "version", inspect.Parameter.KEYWORD_ONLY, default=False,
    annotation=Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Version, and exit.")],
)


def verb(function: Callable[..., Exit]) -> Callable[..., int]:
    """Give a command the common options: its first parameter becomes a Common, the options follow its own."""
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    hints = inspect.get_annotations(Common, eval_str=True)
    common = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in fields(Common)
    ]

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> int:
        del kwargs["version"]  # eager: it has ended the run
        chosen = Common(**{f.name: kwargs.pop(f.name) for f in fields(Common)})
        if chosen.form is Output.html and function.__name__ != HAS_PAGE:
            raise HotplugError(
                "-o html is of diagnose only", why="a page shows one case",
                hint=f"hotplugctl {HAS_PAGE} -o html > case.html", exit=Exit.USAGE)
        return int(function(chosen, *args, **kwargs))

    parameters = [*own, *common, _VERSION]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"(\d+)([KMGT]?)")
_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def duration(text: str, option: str) -> float:
    """`500ms`, `3s`, `5m`, `infinity` in seconds. Raises HotplugError(USAGE) naming the option."""
    match = _DURATION.fullmatch(text)
    if text == "infinity" or match is None:
        if text == "infinity":
            return float("inf")
        raise HotplugError(
            f"{option} {text!r} is not a duration", why="durations are written 500ms, 3s, 5m, 2h, 7d or infinity",
            hint=f"{option} 3s", exit=Exit.USAGE,
        )
    return float(match[1]) * _SECONDS[match[2]]


def size(text: str, option: str) -> int:
    """`64M`, `16G` in bytes (powers of 1024). Raises HotplugError(USAGE) naming the option."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise HotplugError(
            f"{option} {text!r} is not a size", why="sizes are written 64M or 16G (powers of 1024)",
            hint=f"{option} 16G", exit=Exit.USAGE,
        )
    return int(match[1]) * _BYTES[match[2]]

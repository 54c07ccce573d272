"""The command line as values, read off the app's own parameters: what completions and man pages are made from."""

from __future__ import annotations

import enum
import json
import re
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import typer

from hotplugctl import cli
from hotplugctl.cli import VERBS
from hotplugctl.model import Severity, State
from hotplugctl.options import Common
from hotplugctl.output.views import COLUMNS
from hotplugctl.rules import load

__all__ = ["VERBS", "Option", "Takes", "Verb", "every_option", "verb", "verbs"]


class Takes(enum.Enum):
    """What may follow an option: what a shell offers there."""

    NOTHING = "nothing"
    WORD = "one of the words"
    WORDS = "several of the words, with commas"
    FILE = "a file or folder, or one of the words"
    SLOT = "the name of a slot"
    COMMAND = "a command"
    FREE = "text that nobody can offer"


@dataclass(frozen=True)
class Option:
    """An option of a verb. `names`: short first, as man pages have them."""

    names: tuple[str, ...]
    help: str
    takes: Takes = Takes.NOTHING
    words: tuple[str, ...] = ()
    metavar: str = ""
    default: str = ""
    envvar: str = ""
    repeatable: bool = False
    common: bool = False

    @property
    def long(self) -> str:
        """The name that says what it is."""
        return self.names[-1]


@dataclass(frozen=True)
class Verb:
    """A command. `devices`: how its synopsis shows the DEVICE argument."""

    name: str
    summary: str
    devices: str
    options: tuple[Option, ...]


@cache
def verbs() -> tuple[Verb, ...]:
    """The five verbs, in the order of --help."""
    group: Any = typer.main.get_command(cli.app)
    above = group.make_context("hotplugctl", [], resilient_parsing=True)
    return tuple(_verb(group.commands[name], name, above) for name in VERBS)


def verb(name: str) -> Verb:
    """One verb."""
    return next(one for one in verbs() if one.name == name)


def every_option() -> tuple[Option, ...]:
    """Each option once by its long name. Raises ValueError where two verbs disagree on what may follow it."""
    found: dict[str, Option] = {}
    for option in (option for one in verbs() for option in one.options):
        first = found.setdefault(option.long, option)
        if (first.names, first.takes, first.words) != (option.names, option.takes, option.words):
            raise ValueError(f"{option.long} takes one thing here and another there: completions cannot tell")
    return tuple(found.values())


def _verb(command: Any, name: str, above: Any) -> Verb:
    parameters = command.get_params(command.make_context(name, [], parent=above, resilient_parsing=True))
    common = {"help"} | {p.name for p in parameters} & {*(field.name for field in fields(Common)), "version"}
    arguments = [p for p in parameters if p.param_type_name == "argument"]
    options = tuple(
        _option(p, common=p.name in common) for p in parameters if p.param_type_name == "option" and not p.hidden
    )
    return Verb(name, command.help, arguments[0].metavar, options)


# What an option takes where its metavar does not say it, and the metavar for those that have none.
_MACHINES = ("--root", "--from")
_FREE = {"NODE", "KEY=VALUE", "N", "D", "URL", "SIZE[,SIZE...]", "TEXT"}


def _option(parameter: Any, *, common: bool) -> Option:
    names = tuple(sorted(parameter.opts, key=len))
    default = getattr(parameter.default, "value", parameter.default)
    shared = {
        "names": names, "help": parameter.help, "envvar": parameter.envvar or "", "common": common,
        "repeatable": bool(parameter.multiple),
    }
    if parameter.is_flag:
        return Option(**shared)
    choices = [str(getattr(choice, "value", choice)) for choice in getattr(parameter.type, "choices", ())]
    metavar = parameter.metavar or "|".join(choices)
    takes, words = _takes(names[-1], metavar)
    return Option(**shared, takes=takes, words=words, metavar=metavar, default="" if default is None else str(default))


def _takes(name: str, metavar: str) -> tuple[Takes, tuple[str, ...]]:
    """Raises ValueError for an option that nobody has decided about."""
    if metavar in ("FILE", "PATH"):
        return Takes.FILE, ("demo",) if name in _MACHINES else ()
    if re.fullmatch(r"[a-z]+(\|[a-z]+)+", metavar):
        return Takes.WORD, tuple(metavar.split("|"))
    if metavar in _FREE:
        return Takes.FREE, ()
    decided: dict[str, tuple[Takes, tuple[str, ...]]] = {
        "PROFILE": (Takes.WORD, _profiles()),
        "STATE": (Takes.WORD, tuple(state.value for state in State)),
        "SEVERITY": (Takes.WORD, tuple(severity.value for severity in Severity)),
        "RULE|CAUSE": (Takes.WORD, tuple(json.loads(load.compile_taxonomy()))),
        "A,B": (Takes.WORDS, tuple(COLUMNS)),
        "NAME": (Takes.SLOT, ()),
        "CMD": (Takes.COMMAND, ()),
    }
    if metavar not in decided:
        raise ValueError(f"what does {name} {metavar} take? Say it in {__name__}")
    return decided[metavar]


def _profiles() -> tuple[str, ...]:
    return tuple(profile["id"] for profile in json.loads(load.compile_profiles()))

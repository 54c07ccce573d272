"""hotplugctl(1): the verbs, how devices are named, the life-cycle ladder, documents, files, exit codes."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from hotplugctl import config, model
from hotplugctl.model import LADDER, NOT_ASKED, Kind, State
from hotplugctl.output import documents

from .commands import verb, verbs
from .man_verbs import options
from .roff import Page
from .schemas import DOCUMENTS, described

# What has been reached at each rung, and what the states beside the ladder mean.
STATES: Mapping[State, str] = {
    State.ABSENT: "nothing is in the slot",
    State.DETECTED: "the slot reports a card (presence or link)",
    State.IDENTIFIED: "the bus shows it; vendor and device id were read",
    State.MAPPED: "every BAR has its address",
    State.BOUND: "its driver is bound",
    State.INITIALISED: "its firmware runs, its device nodes are usable",
    State.READY: "an independent health check has passed: use it",
    State.DRAINING: "it is being taken out of service",
    State.DRAINED: "it is out of service and holds no work",
    State.REMOVED: "it is known, and no longer there",
    State.FAILED: "it is there and no longer answers: reads give all ones",
}
_KINDS: Mapping[Kind, str] = {
    Kind.DENIED: "not permitted",
    Kind.IO: "it was read, and reading failed or made no sense",
    Kind.NOT_CAPTURED: "the bundle or the text looked at does not hold it",
    Kind.ASLEEP: "the device sleeps, and looking would wake it",
    Kind.NOT_ASKED: "this command does not look at it",
}
_FILES = (
    ("/etc/hotplugctl/config.yaml", "The configuration; see `hotplugctl-config`(5)."),
    ("/etc/hotplugctl/vendors.d/*.yaml, /etc/hotplugctl/rules.d/*.yaml",
     "Vendor profiles and rules beside those that ship; see `hotplugctl-rules`(5)."),
    ("/run/hotplugctl/handshake/", "The last health check of each card."),
)
_ENVIRONMENT = (
    ("HOTPLUGCTL_CONFIG", "As `--config`."),
    ("XDG_CONFIG_HOME", "Where hotplugctl/config.yaml is looked for; ~/.config if unset."),
    ("NO_COLOR", "Not empty: no colour, unless `--color` says otherwise."),
    ("FORCE_COLOR", "Not empty: colour also where the output is no terminal."),
)


def text() -> str:
    """The page."""
    page = Page("hotplugctl", 1, "see, watch, drain and diagnose PCIe accelerators")
    page.section("synopsis")
    page.synopsis("hotplugctl", ["[*option* ...]"])
    page.synopsis("hotplugctl", ["*verb*", "[*option* ...]", "[*DEVICE* ...]"])
    page.section("description")
    page.text(
        "`hotplugctl` shows which PCIe accelerators a machine has, in which slot, and how far each has come up; and "
        "when one does not come up or goes away, at which layer, why, and what to do next. It works while cards are "
        "added, removed and exchanged, and alike on a machine, on a bundle captured on one, and on the logs that "
        "somebody sent.",
        "Without a verb it lists, with one line on the health of all, and takes the options of `list`. "
        "Common options may stand before or after the verb.",
        "The result goes to standard output and nothing else does; progress, hints and errors go to standard error.",
    )
    page.section("verbs")
    for found in verbs():
        page.item(f"`{found.name}`", f"{found.summary} See `hotplugctl-{found.name}`(1).")
    _devices(page)
    page.section("options")
    options(page, (option for option in verb("list").options if option.common))
    _ladder(page)
    _documents(page)
    _surroundings(page)
    page.exit_status()
    page.examples((
        ("The accelerators here, and one line on their health:", "hotplugctl"),
        ("Why something is not ready:", "hotplugctl diagnose"),
        ("The captured machine that ships with the package:", "hotplugctl list --root demo"),
        ("What somebody sent:", "hotplugctl diagnose --from dmesg.txt"),
    ))
    page.see_also(
        *(f"hotplugctl-{found.name}(1)" for found in verbs()), "hotplugctl-config(5)", "hotplugctl-rules(5)",
        "hotplugctl-events(7)", "lspci(8)",
    )
    return str(page)


def _devices(page: Page) -> None:
    page.section("devices")
    page.text("A *DEVICE* is one of")
    for term, meaning in (
        ("`0000:3b:00.0` or `3b:00.0`", "a PCI address; without a domain it is 0000;"),
        ("`slot:`*NAME*", "a slot by the name that `hotplugctl list --slots` shows, and all devices in it;"),
        ("`/dev/davinci0`", "a device node;"),
        ("*serial* or *UUID*", "as `hotplugctl list --wide` and `hotplugctl probe` show them;"),
        ("`all`", "every accelerator."),
    ):
        page.item(term, meaning)
    page.text(
        "What is not there is an error (3) that names near matches. `diagnose` also takes a well-formed address that "
        "nothing is at, and a slot that is empty."
    )


def _ladder(page: Page) -> None:
    page.section("states")
    page.text("A card comes up in rungs, each on top of the one before:")
    wide = max(len(state.value) for state in State) + 4
    page.block(diagram(wide))
    page.text(
        "A device is at a rung when that one and all below it are reached. What keeps it from the next one is its "
        "`missing`. What could not be looked at never counts as reached; the state is then not sure, and shown with a "
        "question mark.",
        "Beside the ladder:",
    )
    page.block(f"{state.value:<{wide}}{STATES[state]}" for state in State if state not in LADDER)


def diagram(wide: int) -> list[str]:
    """The ladder, lowest rung first, as it is climbed."""
    lines: list[str] = []
    for rung in LADDER:
        lines += [*(["    |", "    v"] if lines else []), f"{rung.value:<{wide}}{STATES[rung]}"]
    return lines


def _documents(page: Page) -> None:
    page.section("documents")
    page.text(
        "`-o json` prints one document: `schema` (its name and version), `tool`, `host`, `taken_at` (ISO 8601, UTC), "
        "`data`, and `errors` (what could not be read, as `what` and `why`). `-o jsonl` prints each object of `data` "
        "on a line of its own, with its `schema`. An error is a document too.",
        "Numbers are numbers. What is not there is `null`. What could not be looked at is "
        '`{"unknown":` *why*`, "kind":` *kind*`}`, where *kind* is one of',
    )
    for kind in Kind:
        page.item(f"`{kind.value}`", f"{_KINDS[kind]}.")
    names = ", ".join(f"`{documents.schema(name)}`" for name in DOCUMENTS)
    page.text(
        f"The documents are {names}. Their JSON Schemas are in the package, in hotplugctl/data/schemas. Later versions "
        "add keys; they rename and drop none.",
        "Below are the keys of each part. A type with a question mark may also be null or unknown, one with a bar and "
        "null only null.",
    )
    for words in (model.State, model.Severity, model.Layer):
        page.text(f"A *{words.__name__}* is one of {', '.join(f'`{one.value}`' for one in words)}.")
    for part in _PARTS:
        page.sub(part.__name__)
        page.text(described(part))
        page.block(_keys(part))


_PARTS: tuple[type, ...] = (
    model.Device, model.Probed, model.Driver, model.Link, model.Bar, model.Node, model.Note, model.Held, model.Power,
    model.Errors, model.Port, model.Window, model.SlotControl, model.Dpc, model.Capability, model.Holder, model.Room,
    model.Slot, model.Hotplug, model.Diagnosis, model.DeviceVerdict, model.Finding, model.Evidence, model.LayerState,
    model.Check, model.RuledOut, model.Moment,
)


_WORDS: Mapping[Any, str] = {str: "text", int: "whole number", float: "number", bool: "true or false", Any: "anything"}


def _keys(kind: type) -> list[str]:
    """`link            Link?`, a field a line; those of the class it extends are said once."""
    hints = typing.get_type_hints(kind)
    inherited = {f.name for base in kind.__mro__[1:-1] for f in fields(base)}
    names = [f.name for f in fields(kind) if f.name not in inherited]
    return [f"{name.rstrip('_'):<20}{_said(hints[name])}" for name in names]


def _said(hint: Any) -> str:
    """A type in words: `text`, `Link?`, `list of Bar?`, `text | null`."""
    arguments = typing.get_args(hint)
    if type(None) in arguments:
        inner = next(_said(one) for one in arguments if one not in (type(None), type(NOT_ASKED)))
        return f"{inner}?" if type(NOT_ASKED) in arguments else f"{inner} | null"
    origin = typing.get_origin(hint)
    if origin in (tuple, list, frozenset):
        return f"list of {_said(arguments[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        value = _said(arguments[1])
        return "object" if value == "anything" else f"object of {value}"
    return _WORDS.get(hint) or str(hint.__name__)


def _surroundings(page: Page) -> None:
    page.section("environment")
    common = [option for option in verb("list").options if option.envvar]
    for option in common:
        page.item(f"`{option.envvar}`", f"As `{option.long}`.")
    for name, variable in config._ENVIRONMENT.items():
        page.item(f"`{variable}`", f"As the setting `{name}` of `hotplugctl-config`(5).")
    for variable, meaning in _ENVIRONMENT:
        page.item(f"`{variable}`", meaning)
    page.section("files")
    for path, meaning in _FILES:
        page.item(path, meaning)

"""A case as one page to attach to a ticket: no script, no network, every text of a machine escaped. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Diagnosis, Machine
from . import sections
from .documents import TOOL
from .markup import Html, code, escaped, join, tag
from .sheet import STYLE

# Whatever a log line may smuggle in, the browser is told to run and to load nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(found: Diagnosis, machine: Machine, command: str) -> str:
    """The whole page; plain ASCII, so that no server or mail program can get its encoding wrong."""
    shown: list[tuple[str, str, Html | None]] = [
        ("proof", "Proof", sections.proof(found)),
        ("layers", "The four layers", sections.layers(found)),
        ("walk", "The walk from presence to listener", sections.walk(found)),
        ("topology", "Where it is", sections.where(found)),
        ("timeline", "Timeline", sections.timeline(found)),
        ("findings", "What follows, and what else was found", sections.findings(found)),
        ("devices", "Devices", sections.devices(found)),
        ("ruled-out", "Ruled out", sections.ruled_out(found)),
        ("unchecked", "Not checked", sections.unchecked(found)),
        ("collect", "What to collect next", sections.collect(found)),
        ("summary", "Summary to copy", sections.summary(found, command)),
        ("provenance", "Where this comes from", sections.provenance(machine, command)),
    ]
    kept = [(anchor, title, body) for anchor, title, body in shown if body is not None]
    title = f"{found.verdict.upper()}: {_short(found)}"
    head = join(
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{escaped(_POLICY)}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="referrer" content="no-referrer">'),
        tag("title", f"{title} - {_host(machine)}"), Html(f"<style>{STYLE}</style>"))
    body = join(
        tag("header", "hotplugctl diagnosis of ", tag("strong", tag("bdi", _host(machine))),
            f", {machine.taken_at}" if machine.taken_at else None, class_="top"),
        tag("main", sections.verdict(found), sections.action(found), _contents(kept),
            *(tag("section", tag("h2", title, id=f"{anchor}-title"), body, id=anchor,
                  aria_labelledby=f"{anchor}-title") for anchor, title, body in kept)),
        tag("footer", f"Made by {TOOL}. The same as data: ", code(_as_data(command))))
    whole = f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body>{body}</body>\n</html>\n'
    return whole.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _host(machine: Machine) -> str:
    return machine.host if machine.host not in ("", "unknown") else "a machine that the evidence does not name"


def _contents(kept: Sequence[tuple[str, str, Html | None]]) -> Html:
    links = (tag("li", tag("a", title, href=f"#{anchor}")) for anchor, title, _ in kept)
    return tag("nav", tag("ul", *links), aria_label="Sections")


def _short(found: Diagnosis) -> str:
    cause = found.root_cause
    if cause is None:
        return "no fault stands" if found.verdict == "healthy" else "the evidence does not tell the cause"
    return f"{cause.id} at {cause.address or cause.slot or 'a place the evidence does not name'}"


def _as_data(command: str) -> str:
    return command.removesuffix("-o html") + "-o json" if command.endswith("-o html") else command

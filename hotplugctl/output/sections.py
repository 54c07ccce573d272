"""The sections of a case's page, each made of a diagnosis; None where there is nothing to say. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..diagnose.excerpt import excerpt
from ..model import Diagnosis, Evidence, Finding, LayerState, Machine, Moment, RuledOut
from . import verdicts
from .branches import branches
from .documents import TOOL
from .drawing import drawing, kind, legend, mark
from .markup import Html, code, join, tag
from .signs import sign
from .tables import render

MOST_FINDINGS, MOST_DEVICES, MOST_REASONS, MOST_SOURCES, MOST_GAPS = 40, 100, 30, 30, 30
_LINE, _SENTENCE, _SUMMARY = 300, 600, 24_000      # characters
_REPAIRS = {
    "none": "nothing to repair", "wait": "wait", "retry": "try again", "release": "release what holds it",
    "restart": "restart", "rescan": "rescan the bus", "reset": "reset", "power-cycle": "power-cycle",
    "reseat": "reseat", "replace": "replace", "fix-config": "fix the configuration", "install": "install",
    "update": "update", "reboot": "reboot",
}
_WORDS = {"fault": "FAULT", "healthy": "HEALTHY", "unknown": "UNKNOWN"}


def verdict(found: Diagnosis) -> Html:
    """The answer: in a word, in a sentence, and what it is about."""
    cause = found.root_cause
    word = tag("p", sign(found.verdict, 20), _WORDS.get(found.verdict, found.verdict), class_="word")
    inside: tuple[object, ...]
    if cause is not None:
        facts = (
            ("Root cause", code(cause.id)), ("Layer", cause.layer.value), ("Severity", cause.severity.value),
            ("Device", code(cause.address) if cause.address else "none named"),
            ("Slot", cause.slot or "none named"), ("Confidence", cause.confidence), ("Rule", code(cause.rule)))
        inside = (tag("h1", tag("bdi", cause.title)), tag("p", cause.cause, class_="lead"), tag("dl", *(
            tag("div", tag("dt", name), tag("dd", value)) for name, value in facts)))
    elif found.verdict == "healthy":
        inside = (tag("h1", "No fault stands"),
                  tag("p", "The evidence shows events that completed, or lines that mean no harm.", class_="lead"))
    else:
        inside = (tag("h1", "The evidence does not tell the cause"),
                  tag("p", "Nothing was found that stands as a cause, and not enough to call it healthy. "
                      "The layers below say what is known.", class_="lead"))
    return tag("section", word, *inside, class_=f"verdict tone-{found.verdict}", aria_label="Verdict")


def action(found: Diagnosis) -> Html | None:
    """The one thing to do next."""
    cause = found.root_cause
    if cause is not None:
        repair = tag("span", _REPAIRS.get(cause.repair, cause.repair), class_="repair", title=cause.repair)
        return tag("section", tag("h2", "Do this next"), tag("p", repair, " ", cause.action), class_="act")
    if found.verdict == "unknown" and found.collect_next:
        return tag("section", tag("h2", "Do this next"), tag("p", "Collect what would tell more:"),
                   tag("pre", found.collect_next[0]), class_="act")
    return None


def proof(found: Diagnosis) -> Html | None:
    """The lines and facts that prove the root cause."""
    cause = found.root_cause
    return None if cause is None else tag("ol", *(_evidence(one) for one in cause.evidence), class_="lines")


def _evidence(one: Evidence, most: int | None = None) -> Html:
    where = f"{one.source}:{one.line}" if one.line is not None else one.source
    long = len(one.text) > 1000
    when = f" at {verdicts.clock(one.time)}" if one.time else None
    return tag("li", tag("span", tag("bdi", where), when, class_="where"),
               tag("code", one.text if most is None else excerpt(one.text, most), class_="text", dir="ltr",
                   tabindex=0 if long and most is None else None))


def layers(found: Diagnosis) -> Html:
    """Hardware, driver, runtime, application: ok, fault or unknown, and why."""
    note = None if found.checks else tag(
        "p", "No walk from presence to listener: it needs a card or slot that can be looked at, here or in a bundle.",
        class_="none small")
    return join(tag("ol", *(_layer(one) for one in found.layers), class_="layers"), note)


def _layer(one: LayerState) -> Html:
    return tag("li", tag("span", one.layer.value, class_="name"), *_state(one.state, one.because), class_=one.state)


def _state(state: str, because: str) -> tuple[Html, ...]:
    return (tag("span", sign(state), " ", state, class_="state"),
            tag("span", excerpt(because, _SENTENCE), class_="because"))


def walk(found: Diagnosis) -> Html | None:
    """The stations in the order in which a card passes them."""
    return None if not found.checks else tag("ol", *(
        tag("li", tag("span", check.name, class_="name"), *_state(check.state, check.because), class_=check.state)
        for check in found.checks), class_="walk")


def where(found: Diagnosis) -> Html:
    """The topology."""
    return branches(found.topology)


def timeline(found: Diagnosis) -> Html:
    """The lines that matter: drawn to scale, then one by one."""
    if not found.timeline:
        return tag("p", "No line of the evidence is one that the rules know.", class_="none")
    root = found.root_cause.address if found.root_cause is not None else None
    numbered = list(enumerate(found.timeline, 1))
    parts: list[Html] = [legend(found.timeline)]
    for clock in found.clocks:
        here = [(number, moment) for number, moment in numbered if moment.clock == clock.number]
        if len(found.clocks) > 1:
            parts.append(tag("h3", ", ".join(clock.sources)))
        begins = f"Seconds are counted from {clock.start}, the first line that matters" if clock.start else None
        which = "Between sources, times" if len(clock.sources) > 1 else "Times of day"
        exact = f"{which} are good to {clock.exact:.1g} s" if clock.exact >= 0.01 else None
        said = [one for one in (begins, *clock.because, exact) if one is not None]
        parts.append(tag("ul", *(tag("li", tag("bdi", one)) for one in said), class_="quiet small"))
        picture = drawing(clock, here, root)
        if picture:
            parts.append(tag("div", picture, class_="frame"))
        parts.append(tag("ol", *_moments(here), class_="moments"))
    if found.timeline_left_out:
        parts.append(tag("p", f"{found.timeline_left_out:,} more lines that rules know were left out.", class_="none"))
    return join(*parts)


def _moments(numbered: Sequence[tuple[int, Moment]]) -> list[Html]:
    rows, last = [], ""
    for number, moment in numbered:
        source = f"{moment.source}:{moment.line}" if moment.line is not None else moment.source
        times = (verdicts.clock(moment.time), verdicts.boot(moment))
        about = [source, *(text for text in (*times, moment.device) if text)]
        means = tag("span", excerpt(moment.meaning, _LINE), class_="means") if moment.meaning != last else None
        last = moment.meaning
        rows.append(tag(
            "li", tag("span", mark(kind(moment)), f" {number}", class_="no"),
            tag("span", verdicts.after(moment) if moment.after is not None else "no time", class_="at"),
            tag("div", code(moment.text.strip(), _LINE), means, class_="what"),
            tag("span", *(tag("bdi", one) for one in about), class_="where"),
            class_="proves" if moment.proof else None))
    return rows


def findings(found: Diagnosis) -> Html | None:
    """What the root cause brings about, then the causes that stand beside it."""
    others = [one for one in found.findings if one is not found.root_cause]
    if not others:
        return None
    root = found.root_cause.id if found.root_cause is not None else None
    follows = [one for one in others if one.follows_from is not None and one.follows_from == root]
    beside = [one for one in others if one not in follows]
    parts: list[Html] = []
    room = MOST_FINDINGS
    for title, group in (("Follows from the root cause", follows), ("Also found", beside)):
        if group:
            shown, room = group[:room], max(0, room - len(group))
            parts += [tag("h3", title), tag("ul", *map(_finding, shown), class_="lines")]
    if len(others) > MOST_FINDINGS:
        parts.append(tag("p", f"and {len(others) - MOST_FINDINGS:,} more: -o json", class_="none"))
    return join(*parts)


def _finding(one: Finding) -> Html:
    after = f", follows from {one.follows_from}" if one.follows_from else ""
    said = f"{one.layer.value}, {one.severity.value}, {one.confidence}, at {verdicts.place(one)}{after}"
    lines = [_evidence(proof, _LINE) for proof in one.evidence[:2]]
    return tag("li", tag("strong", excerpt(one.title, _SENTENCE)), " ", code(one.id), tag("span", said, class_="where"),
               tag("ul", *lines, class_="small"))


def devices(found: Diagnosis) -> Html | None:
    """Every device that has a verdict; one alone is what the page is about."""
    if len(found.devices) < 2:
        return None
    worst_first = sorted(found.devices, key=lambda one: ("fault", "unknown", "healthy").index(one.verdict))
    follows = {one.address: f"{one.title} (follows from {one.follows_from})" for one in reversed(found.findings)
               if one.follows_from is not None}
    why = {one.address: one.root_cause.title for one in found.devices if one.root_cause is not None}
    rows = [
        tag("tr", tag("td", code(one.address) if one.address else "not on the bus"),
            tag("td", f"slot {one.slot}" if one.slot else ""),
            tag("td", tag("span", sign(one.verdict), " ", one.verdict), class_="nowrap"),
            tag("td", excerpt(why.get(one.address) or follows.get(one.address, ""), _LINE)))
        for one in worst_first[:MOST_DEVICES]]
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in ("Address", "Slot", "Verdict", "Why"))))
    left = len(found.devices) - MOST_DEVICES
    return join(tag("div", tag("table", head, tag("tbody", *rows)), class_="table"),
                tag("p", f"and {left:,} more: -o json", class_="none") if left > 0 else None)


def ruled_out(found: Diagnosis) -> Html | None:
    """What looked possible and is not."""
    return _reasons(found.ruled_out)


def unchecked(found: Diagnosis) -> Html | None:
    """What could not be told, by what was missing."""
    return _reasons(found.unchecked)


def _reasons(outs: Sequence[RuledOut]) -> Html | None:
    """Each reason once, with the causes that it is the reason for."""
    causes: dict[str, Counter[str]] = {}
    for out in outs:
        causes.setdefault(out.because, Counter())[out.root_cause] += 1
    if not causes:
        return None
    rows = [
        tag("li", join(*(part for cause, count in names.most_common(12) for part in (
            code(cause), f" ({count} times) " if count > 1 else " "))),
            "and more " if len(names) > 12 else None,
            tag("span", excerpt(because, _SENTENCE), class_="because"))
        for because, names in list(causes.items())[:MOST_REASONS]]
    left = len(causes) - MOST_REASONS
    return join(tag("ul", *rows, class_="lines"),
                tag("p", f"and {left:,} more reasons: -o json", class_="none") if left > 0 else None)


def collect(found: Diagnosis) -> Html | None:
    """Commands that would tell more."""
    return tag("pre", *_lines("\n".join(found.collect_next))) if found.collect_next else None


def summary(found: Diagnosis, command: str) -> Html:
    """The verdict as plain text, for a ticket that takes nothing else."""
    text = "".join(render(page, "plain") + "\n" for page in verdicts.brief(found))
    return tag("pre", *_lines(excerpt(text.rstrip() + f"\n\n$ {command}", _SUMMARY)), tabindex=0)


def _lines(text: str) -> list[Html]:
    """Text line by line, since a line end inside a text is shown as one that was smuggled in."""
    return [join(line, Html("\n")) for line in text.split("\n")]


def provenance(machine: Machine, command: str) -> Html:
    """Who said so: the tool, the host, the time, the command, the sources, and what could not be used."""
    sources = Counter(line.source for line in machine.logs)
    read = [f"{source} ({count:,} lines)" for source, count in list(sources.items())[:MOST_SOURCES]]
    if len(sources) > MOST_SOURCES:
        read.append(f"and {len(sources) - MOST_SOURCES:,} more")
    seen = [f"{count} {name}" for count, name in (
        (len(machine.devices), "devices"), (len(machine.slots), "slots"), (len(machine.ports), "ports")) if count]
    facts = (
        ("Tool", TOOL), ("Host", machine.host), ("Taken at", machine.taken_at or "unknown"),
        ("Kernel", machine.kernel if isinstance(machine.kernel, str) else None), ("Seen", ", ".join(seen) or None))
    gaps = [tag("li", code(gap.path, _LINE), ": ", excerpt(gap.reason, _SENTENCE)) for gap in machine.gaps[:MOST_GAPS]]
    left = len(machine.gaps) - MOST_GAPS
    return join(
        tag("dl", *(tag("div", tag("dt", name), tag("dd", tag("bdi", value))) for name, value in facts if value)),
        tag("h3", "Made with"), tag("pre", command),
        join(tag("h3", "Logs read"), tag("ul", *(tag("li", code(one)) for one in read))) if read else None,
        join(tag("h3", "Could not be used"), tag("ul", *gaps)) if gaps else None,
        tag("p", f"and {left:,} more", class_="none") if left > 0 else None)

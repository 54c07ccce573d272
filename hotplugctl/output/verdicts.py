"""What people see of a diagnosis: the cause, the proof, the next thing to do; the rest folded beneath."""

from __future__ import annotations

from collections.abc import Sequence

from ..diagnose.excerpt import excerpt
from ..diagnose.explain import Condition, Explanation, Trial
from ..model import Diagnosis, Evidence, Finding, Gap, Moment, RootCause, Severity, State
from .tables import Column, Row, Table

_PAGE = (Column(""), Column("", wraps=True, least=20))
_EVIDENCE_SHOWN = 8
_MOMENTS_SHOWN = 30
_TEXT_SHOWN = 160       # characters
_TRIAL = (
    Column("", marked=True), Column("PART"), Column("CONDITION", wraps=True, least=24),
    Column("FOUND", wraps=True, least=24))
# `*` marks what a finding rests on.
_MOMENT = (
    Column("", marked=True), Column("AFTER", right=True), Column("TIME", 3), Column("BOOT", 4), Column("DEVICE", 2),
    Column("LINE", 1), Column("TEXT", wraps=True, least=30), Column("MEANS", 1, wraps=True, least=24),
)
# How a check is coloured; the word says it too.
_STATES = {"ok": State.READY, "fault": Severity.ERROR, "unknown": None}


def pages(found: Diagnosis, gaps: Sequence[Gap] = ()) -> list[Table]:
    """The diagnosis as a person reads it at night: verdict first."""
    shown = [_verdict(found)]
    if gaps:        # before all that was read: what was not may be what matters
        shown.append(Table(_PAGE, (), tuple(
            f"could not use {'all of ' if gap.half else ''}{gap.path}: {gap.reason}" for gap in gaps)))
    others = [one for one in found.findings if one is not found.root_cause]
    if others:
        shown.append(_others(others))
    steps = [(check.name, check.state, check.because) for check in found.checks]
    layers = [(one.layer.value, one.state, one.because) for one in found.layers]
    rows = [Row(step, _STATES[step[1]]) for step in steps or layers]
    columns = (
        Column("CHECK" if steps else "LAYER"), Column("STATE", marked=True), Column("BECAUSE", wraps=True, least=16))
    shown.append(Table(columns, tuple(rows)))
    shown += timelines(found)
    return shown


def brief(found: Diagnosis) -> list[Table]:
    """What goes into a ticket as text: the verdict with its proof, the layers."""
    rows = tuple(Row((one.layer.value, one.state, one.because)) for one in found.layers)
    return [_verdict(found), Table((Column("LAYER"), Column("STATE"), Column("BECAUSE")), rows)]


def _verdict(found: Diagnosis) -> Table:
    cause = found.root_cause
    if cause is None:
        if found.verdict == "healthy":
            fine = "No fault stands; the evidence shows only events that completed."
            return Table(_PAGE, (), (fine,), "HEALTHY", State.READY)
        rows = [Row(("collect", command)) for command in found.collect_next]
        nobody = not (found.devices or found.findings or found.timeline)
        why = "nothing here is known as an accelerator" if nobody else "the evidence does not tell the cause"
        return Table(_PAGE, tuple(rows), (), f"UNKNOWN: {why}")
    title = f"{found.verdict.upper()}: {cause.id} at {place(cause)}"
    return Table(_PAGE, tuple(_finding_rows(cause, found)), (), title, cause.severity)


def _finding_rows(cause: Finding, found: Diagnosis) -> list[Row]:
    rows = [
        Row(("what", cause.title)),
        Row(("cause", cause.cause)),
        Row(("layer", f"{cause.layer.value}; severity {cause.severity.value}; {cause.confidence} (rule {cause.rule})")),
    ]
    rows += [Row(("proof", said(one))) for one in cause.evidence[:_EVIDENCE_SHOWN]]
    if len(cause.evidence) > _EVIDENCE_SHOWN:
        rows.append(Row(("", f"and {len(cause.evidence) - _EVIDENCE_SHOWN} more: -o json")))
    ruled_out = [out for out in found.ruled_out if out.address in (cause.address, None)]
    rows += [Row(("not", f"{out.root_cause}: {out.because}")) for out in ruled_out[:4]]
    rows.append(Row(("do", f"[{cause.repair}] {cause.action}")))
    return rows


def timelines(found: Diagnosis) -> list[Table]:
    """The lines that matter, a table for each clock; a meaning is said once for the lines that follow each other."""
    root = found.root_cause.address if found.root_cause is not None else None
    weighty = sorted(found.timeline, key=lambda moment: (not moment.proof, moment.device != root))
    kept = {id(moment) for moment in weighty[:_MOMENTS_SHOWN]}
    left = len(found.timeline) - len(kept) + found.timeline_left_out
    pages = []
    for scale in found.clocks:
        rows, said_last = [], ""
        for moment in found.timeline:
            if moment.clock != scale.number or id(moment) not in kept:
                continue
            where = f"{moment.source}:{moment.line}" if moment.line is not None else moment.source
            meaning = moment.meaning if moment.meaning != said_last else '"'
            said_last = moment.meaning
            rows.append(Row(
                ("*" if moment.proof else " ", after(moment), clock(moment.time), boot(moment), moment.device, where,
                 excerpt(moment.text, _TEXT_SHOWN), meaning), Severity.ERROR if moment.proof else None))
        # A clock that tells no time of day, or no seconds since boot, needs no column for it.
        empty = [at for at in (2, 3) if not any(row.cells[at] for row in rows)]
        if rows:
            start = f", from {clock(scale.start)} on" if scale.start else ""
            title = f"TIMELINE of {', '.join(scale.sources)}{start}"
            pages.append(Table(
                tuple(column for at, column in enumerate(_MOMENT) if at not in empty),
                tuple(Row(tuple(c for at, c in enumerate(row.cells) if at not in empty), row.mark) for row in rows),
                (), title))
            pages.append(Table(_PAGE, (), tuple(scale.because)))
    if left and pages:
        pages.append(Table(_PAGE, (), (f"{left} more lines of the timeline: -o json",)))
    return [page for page in pages if page.rows or page.notes]


def clock(time: str | None) -> str | None:
    """A time for people: without the year that a syslog stamp lacks (`--03-02T08:10:01`, ISO 8601:2000, truncated)."""
    return time[2:].replace("T", " ") if time is not None and time.startswith("--") else time


def after(moment: Moment) -> str:
    """How long after the first line that matters, as precisely as a person compares."""
    return f"+{moment.after:.3f} s" if moment.after is not None else "?"


def boot(moment: Moment) -> str | None:
    """Seconds since boot as the kernel writes them."""
    return f"[{moment.monotonic:11.6f}]" if moment.monotonic is not None else None


def _others(others: Sequence[Finding]) -> Table:
    columns = (
        Column("ALSO"), Column("AT"), Column("SEVERITY", 1, marked=True), Column("WHAT", wraps=True, least=16),
        Column("FOLLOWS FROM", 2),
    )
    rows = [
        Row((one.id, place(one), one.severity.value, one.title, one.follows_from), one.severity) for one in others
    ]
    return Table(columns, tuple(rows))


def place(finding: Finding) -> str:
    """Where a finding is: its address, its slot, or that the evidence names none."""
    return located(finding.address, finding.slot) or "a place the evidence does not name"


def located(address: str | None, slot: str | None) -> str:
    """An address, a slot or both; empty for neither."""
    if address:
        return f"{address} (slot {slot})" if slot else address
    return f"slot {slot}" if slot else ""


def said(evidence: Evidence) -> str:
    """`source:line: when text`, as editors and grep have it; when it was is the first question at night."""
    where = f"{evidence.source}:{evidence.line}" if evidence.line is not None else evidence.source
    return f"{where}: {clock(evidence.time)} {evidence.text}" if evidence.time else f"{where}: {evidence.text}"


def explained(explanation: Explanation) -> list[Table]:
    """What a root cause means, the rules that tell it, and how they come out where evidence was looked at."""
    cause = explanation.root_cause
    rows = [
        Row(("meaning", cause.meaning)), Row(("layer", cause.layer.value)), Row(("severity", cause.severity.value)),
        Row(("do", f"[{cause.repair}] {cause.action}")),
    ]
    pages = [Table(_PAGE, tuple(rows), (), cause.id)]
    for rule, conditions in zip(explanation.rules, explanation.conditions, strict=True):
        told = [Row(("title", rule.title)), Row(("cause", rule.cause)), Row(("confidence", rule.confidence))]
        told += [Row((_under(condition), condition.text)) for condition in conditions]
        pages.append(Table(_PAGE, tuple(told), (), f"rule {rule.id} ({rule.where})"))
    pages += [_trial(trial) for trial in explanation.trials or ()]
    if explanation.trials is not None and (explanation.elsewhere or not explanation.trials):
        count = "" if explanation.elsewhere == 1 else "s"
        where = f"at {explanation.elsewhere} other place{count}" if explanation.trials else "in what was looked at"
        pages.append(Table(_PAGE, (), (f"nothing speaks for it {where}",)))
    return pages


def causes(known: Sequence[RootCause]) -> list[Table]:
    """The root causes there are, by layer."""
    columns = (Column("CAUSE"), Column("LAYER"), Column("SEVERITY", 1), Column("MEANING", wraps=True, least=24))
    rows = tuple(Row((cause.id, cause.layer.value, cause.severity.value, cause.meaning)) for cause in known)
    return [Table(columns, rows)]


def _trial(trial: Trial) -> Table:
    rows = []
    for step in trial.steps:
        found = [said(evidence) for evidence in step.found]
        found += [step.because] if found and step.because and not step.excused else []
        found += [f"excused: {said(evidence)}; for there is: {step.because}" for evidence in step.excused]
        if not found:
            found = [step.because or ("" if step.answer == "yes" else "nothing in the evidence")]
        rows.append(Row((step.answer, _under(step.condition), step.condition.text, found[0])))
        rows += [Row(('"', '"', '"', more)) for more in found[1:]]
    holds = {"yes": "holds", "no": "does not hold"}.get(trial.answer, "cannot be told")
    at = located(trial.address, trial.slot) or "the machine"
    return Table(_TRIAL, tuple(rows), (), f"rule {trial.rule} at {at}: {holds}")


def _under(condition: Condition) -> str:
    return ". " * condition.depth + condition.word

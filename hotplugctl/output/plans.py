"""What people see of a drain: Plan -> Tables."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Holder, Plan, PlanDevice, SafeToPull, State, Unknown
from .tables import Column, Row, Table

_STEPS = (Column("STEP"), Column("TARGET", wraps=True, least=16), Column("WHY", 2, wraps=True),
          Column("TAKEN BACK BY", 3, wraps=True, least=16))
_BLOCKERS = (Column("IN THE WAY", wraps=True), Column("WHY", wraps=True), Column("LIFTED BY", wraps=True, least=16))
_HOLDERS = (Column("PID", right=True), Column("PROCESS"), Column("USER", 2), Column("HAS", wraps=True, least=16),
            Column("ENDS WITH", 1, wraps=True, least=16))
_FACTS = (Column(""), Column("", wraps=True))


def pages(plan: Plan, *, before: bool, asking: bool = False) -> list[Table]:
    """A plan before it runs (what would be done), or after (what that means; each step was told when it was taken)."""
    found = []
    if plan.steps:
        rows = tuple(Row((n, step.do, step.target, step.why, step.undo)) for n, step in enumerate(plan.steps, 1))
        found.append(Table((Column("", right=True), *_STEPS), rows, title=f"{named(plan)}: what a run does" if before
                           else "still to do"))
    if plan.blockers:
        rows = tuple(Row((b.what, b.why, b.lifted_by or "nothing")) for b in plan.blockers)
        found.append(Table(_BLOCKERS, rows))
    if isinstance(plan.holders, tuple) and plan.holders:
        found.append(Table(_HOLDERS, tuple(_holder(holder) for holder in plan.holders)))
    facts = tuple(_facts(plan, before=before, asking=asking))
    found.append(Table(_FACTS, facts, tuple(f"note: {warning}" for warning in plan.warnings)))
    return found


def _holder(holder: Holder) -> Row:
    return Row((holder.pid, holder.command, holder.user, holder.node, holder.release))


def named(plan: Plan) -> str:
    """The cards of a plan, as one says them."""
    return ", ".join(_one(device) for device in plan.devices)


def _one(device: PlanDevice) -> str:
    slot = f"slot {device.slot}" if isinstance(device.slot, str) else ""
    return " ".join(part for part in (slot, device.address or "") if part) or "the card"


def _facts(plan: Plan, *, before: bool, asking: bool) -> list[Row]:
    rows = [Row((_one(device), device.state), device.state) for device in plan.devices]
    held = plan.state in (State.DRAINED, State.DRAINING)
    if not before and held and plan.safe_to_pull is not None:
        rows.append(Row(("safe to pull", safe(plan.safe_to_pull))))
    if isinstance(plan.holders, Unknown):
        rows.append(Row(("who has it", f"? ({plan.holders.why})")))
    if before and not plan.steps:
        rows.append(Row(("to do", "nothing")))
    if plan.resume is not None and (before or plan.steps) and not (plan.blockers or asking):
        rows.append(Row(("to run it" if before else "to go on", plan.resume)))
    if plan.undo is not None and not before and held:
        there = all(device.address is not None for device in plan.devices)
        rows.append(Row(("to take it back" if there else "the card back in: take it back", plan.undo)))
    return rows


def safe(answer: SafeToPull) -> str:
    """`yes`, `no` or `cannot be told`, and why."""
    word = {True: "yes", False: "no", None: "cannot be told"}[answer.value]
    return f"{word}: {answer.because}"


_STATUS = (
    Column("SLOT"), Column("ADDRESS"), Column("STATE", marked=True), Column("SINCE", 3), Column("BY", 4),
    Column("REASON", 2, wraps=True), Column("NEXT STEP", 1, wraps=True, least=16), Column("SAFE TO PULL", wraps=True),
)


def status(plans: Sequence[Plan]) -> Table:
    """The drains in progress."""
    rows = []
    for plan in plans:
        device, held = plan.device, plan.device.held if plan.device is not None else None
        nexts = f"{plan.steps[0].do} {plan.steps[0].target}" if plan.steps else None
        rows.append(Row((
            device.slot if device is not None else None, plan.devices[0].address if plan.devices else None, plan.state,
            held.since if held is not None else None, held.by if held is not None else None,
            held.reason if held is not None else None, nexts,
            safe(plan.safe_to_pull) if plan.safe_to_pull is not None else None), plan.state))
    notes = [f"{text}: {command}" for plan in plans for text, command in (
        ("to go on", plan.resume if plan.steps else None), ("to take it back", plan.undo)) if command is not None]
    return Table(_STATUS, tuple(rows), tuple(notes))

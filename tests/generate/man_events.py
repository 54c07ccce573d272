"""hotplugctl-events(7): the kinds of changes."""

from __future__ import annotations

from collections.abc import Mapping

from hotplugctl.model import ChangeKind

from .roff import Page

# What each kind means, for hotplugctl-events(7).
KINDS: Mapping[ChangeKind, str] = {
    ChangeKind.SNAPSHOT: "What is there when watching begins: always the first line, also of nothing. `devices` counts "
                         "them, `standing` holds them all.",
    ChangeKind.ADDED: "A card has appeared, on the bus or only in its slot. It is not yet usable.",
    ChangeKind.PROGRESS: "It has come up by a rung of the ladder.",
    ChangeKind.READY: "It can be used: its second handshake has passed.",
    ChangeKind.LATE: "It is over its budget and still on its way up. `diagnosis` says what keeps it.",
    ChangeKind.FAILED: "It will not go on by itself. `diagnosis` says why.",
    ChangeKind.DEGRADED: "It was ready and is not any more: a health check failed, or a rung was lost.",
    ChangeKind.RECOVERED: "What kept it out of service was taken back: an undo, or a button pressed again.",
    ChangeKind.DRAINING: "It is being taken out of service; no new work. `deadline_s` says how long is left.",
    ChangeKind.DRAINED: "It is out of service and holds no work.",
    ChangeKind.REMOVED: "It is gone. `expected` says whether that was asked for, `sure` whether that is known.",
    ChangeKind.SURPRISE_REMOVED: "It is gone, and the slot's own log lines prove that nobody asked for it.",
    ChangeKind.REPLACED: "Another card is in its place, and no removal was seen. `replaces` says which it was.",
    ChangeKind.FLAPPING: "It comes and goes too often to be trusted.",
    ChangeKind.ERROR: "It could not be looked at.",
    ChangeKind.RESYNC: "The kernel has dropped events: everything was looked at again. `lost` says how many, if known.",
}


def text() -> str:
    """The page."""
    page = Page("hotplugctl-events", 7, "the changes that hotplugctl watch reports")
    page.section("description")
    page.text(
        "Each line of `hotplugctl-watch`(1) is one "
        "change of one device, with `-o jsonl` a JSON object of schema `hotplugctl.change/1`. Its `kind` is one of:"
    )
    for kind in ChangeKind:
        page.item(f"`{kind.value}`", KINDS[kind])
    page.section("notes")
    page.text(
        "`late` is still on its way up, `failed` will not go on by itself; both carry a diagnosis.",
        "`surprise_removed` needs proof: a line of the slot that says the card or the link is gone, and no button "
        "pressed or power switched before. Where the log cannot be read it is `removed`, and not sure.",
        "The time of a card that is added runs from its own enumeration; what it waited for other cards before that is "
        "the stage `queued`. The time of a removal runs from its first sign.",
    )
    page.see_also("hotplugctl(1)", "hotplugctl-watch(1)", "hotplugctl-drain(1)", "udev(7)")
    return str(page)

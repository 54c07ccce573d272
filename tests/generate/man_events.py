"""hotplugctl-events(7): the kinds of changes, from the table in `planned`."""

from __future__ import annotations

from .planned import KINDS, ChangeKind
from .roff import Page


def text() -> str:
    """The page."""
    page = Page("hotplugctl-events", 7, "the changes that hotplugctl watch reports")
    page.section("description")
    page.text(
        "`hotplugctl-watch`(1) comes in a later version; this page says what its lines will mean. Each line is one "
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

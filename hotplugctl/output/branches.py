"""The topology of a case as nested lists: the way down to the fault, and small, what else is there. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..model import Spot
from .markup import Html, code, join, tag
from .signs import sign

MOST_OTHERS = 48


def branches(spots: Sequence[Spot]) -> Html:
    """The tree; where nothing is known of it, a sentence."""
    if not spots:
        return tag("p", "Nothing in the evidence tells where the cards are: no listing of the bus, no port in a log.",
                   class_="none")
    below: dict[str | None, list[Spot]] = {}
    for spot in spots:
        below.setdefault(spot.under, []).append(spot)
    path = next((spot for spot in below.get(None, ()) if spot.on_path), None)
    tops = [spot for spot in below.get(None, ()) if not spot.on_path]
    parts = [tag("ul", _branch(path, below), class_="tree")] if path is not None else []
    if path is not None and path.kind == "card":
        parts.append(tag("p", "The evidence does not tell which port it is below.", class_="none"))
    if tops:
        heading = "Other slots and cards" if path is not None else "Slots and cards"
        parts.append(tag("h3", heading))
        parts.append(tag("ul", *(_small(top, below) for top in tops[:MOST_OTHERS]), class_="others"))
        if len(tops) > MOST_OTHERS:
            parts.append(tag("p", f"and {len(tops) - MOST_OTHERS} more: -o json", class_="none"))
    return join(*parts)


def _branch(spot: Spot, below: Mapping[str | None, Sequence[Spot]], depth: int = 0) -> Html:
    under = below.get(spot.address, ()) if depth < 16 else ()
    on = [one for one in under if one.on_path]
    beside = [one for one in under if not one.on_path]
    last = spot.on_path and not on
    inner: list[Html] = []
    if on:
        inner.append(tag("ul", *(_branch(one, below, depth + 1) for one in on), class_="tree"))
    if beside:
        left = len(beside) - MOST_OTHERS
        shown = [_small(one, below) for one in beside[:MOST_OTHERS]]
        inner.append(tag("ul", *shown, tag("li", f"and {left} more") if left > 0 else None, class_="others"))
    return tag("li", _box(spot, fault=last), *inner)


def _box(spot: Spot, *, fault: bool) -> Html:
    """A port or card on the way down."""
    facts = [spot.name, f"slot {spot.slot}" if spot.slot else None, spot.link, spot.state]
    return tag(
        "div", tag("span", spot.kind, class_="kind"), " ", code(spot.address or "no address"),
        join(" ", sign("fault"), " ", tag("strong", "at fault")) if fault else None,
        tag("span", *_dotted(facts), class_="facts"), class_="spot fault" if fault else "spot")


def _small(spot: Spot, below: Mapping[str | None, Sequence[Spot]]) -> Html:
    """A port with what is below it, in a line or two."""
    cards = _cards(spot, below, 0)
    slot = f"slot {spot.slot}" if spot.slot else spot.kind if spot.kind != "card" else None
    lines: list[Html | str | None] = [tag("span", slot, " ", class_="kind")] if slot else []
    if spot.kind != "card" and not cards:
        said = spot.verdict or spot.state or "what is below it is not known"
        lines += [code(spot.address), " ", sign(said) if spot.verdict else None, " ", tag("span", said, class_="facts")]
    for card in cards[:8]:
        state = card.verdict or card.state
        lines.append(join(code(card.address), " ", sign(state) if state in ("healthy", "fault", "unknown") else None,
                          " ", tag("span", *_dotted([state, card.name]), class_="facts")))
    if len(cards) > 8:
        lines.append(tag("span", f"and {len(cards) - 8} more", class_="facts"))
    return tag("li", *lines)


def _cards(spot: Spot, below: Mapping[str | None, Sequence[Spot]], depth: int) -> list[Spot]:
    if spot.kind == "card":
        return [spot]
    return [card for one in below.get(spot.address, ()) for card in _cards(one, below, depth + 1)] if depth < 16 else []


def _dotted(facts: Sequence[str | None]) -> list[str]:
    said = [fact for fact in facts if fact]
    return [", ".join(said)] if said else []

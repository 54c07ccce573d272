"""Whether a card may be pulled, and how its slot is switched off. Pure."""

from __future__ import annotations

from ..model import SafeToPull, Unknown
from .site import Card

NO_SLOT = "it is in no hot-plug slot: power the server off first"
BY_SURPRISE = "it is off the bus, and its port, which has no power controller, allows surprise removal"


def safe_to_pull(card: Card) -> SafeToPull:
    """True only if none of its functions is left, and its slot is a hot-plug slot that is off, or may be surprised."""
    slot = card.slot
    if slot is None or slot.hotplug.driver is None or slot.hotplug.capable is False:
        return SafeToPull(False, NO_SLOT)
    if card.pieces:
        left = ", ".join(piece.address for piece in card.pieces)
        return SafeToPull(False, f"still on the bus: {left}; --power-off switches its slot off")
    for fact in (slot.hotplug.driver, slot.hotplug.capable):
        if isinstance(fact, Unknown):
            return SafeToPull(None, f"could not look at its slot ({fact.why})")
    switched = switches_power(card)
    if isinstance(switched, Unknown):
        return SafeToPull(None, f"could not look at its slot's power controller ({switched.why})")
    if switched:
        if isinstance(slot.power, Unknown) or slot.power is None:
            why = slot.power.why if isinstance(slot.power, Unknown) else "it does not say"
            return SafeToPull(None, f"could not look at its slot's power ({why})")
        if slot.power == "off":
            return SafeToPull(True, "it is off the bus and its slot is powered off")
        return SafeToPull(False, "its slot is powered on: --power-off")
    if slot.hotplug.surprise is True:
        return SafeToPull(True, BY_SURPRISE)
    return SafeToPull(False, "its port has no power controller and allows no surprise removal: "
                             "power the server off first")


def switches_power(card: Card) -> bool | Unknown:
    """Does the slot's `power` file switch its power? With pciehp only where the port has a power controller.

    Other hot-plug drivers (acpiphp, shpchp, rpaphp) show the file only where the platform does it.
    """
    if card.slot is None or card.slot.hotplug.driver is None:
        return False
    if isinstance(card.slot.hotplug.driver, Unknown):
        return card.slot.hotplug.driver
    if card.slot.hotplug.driver != "pciehp":
        return True
    controller = card.slot.hotplug.power_controller
    return controller if isinstance(controller, Unknown) else controller is True

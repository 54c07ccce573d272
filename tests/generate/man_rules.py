"""hotplugctl-rules(5): the language of rules with the names of all facts, and vendor profiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from hotplugctl.model import LADDER, Profile, Rule, Severity
from hotplugctl.rules import facts, grammar, schema

from .roff import Page

EXAMPLE_RULES = r"""
schema: hotplugctl.rules/1
rules:
  - id: hw.link-narrow-site
    root_cause: link_downtrained
    title: "{address}: x{link.width} of x{link.limit_width}"
    when:
      all:
        - {fact: link.width, lt: {fact: link.limit_width}}
        - {fact: driver.name, is: present}
    cause: A lane is not training; contact, riser or cable.
    confidence: likely
    examples:
      fires: {link: {width: 8, limit_width: 16}, driver: {name: x}}
      quiet: {link: {width: 16, limit_width: 16}, driver: {name: x}}
  - id: drv.probe-failed-site
    root_cause: driver_init_failed
    title: "{address}: its driver gave up with error {errno}"
    when:
      log: 'probe with driver \S+ failed with error -(?P<errno>\d+)'
      unless: [{log: 'Initialized \S+', after: true}]
    cause: The driver's probe returned an error.
    blocks: bound
    examples:
      fires:
        log:
        - "x 0000:17:00.0: probe with driver x failed with error -5"
      quiet:
        log: ["x 0000:17:00.0: enabling device (0000 -> 0002)"]
""".strip() + "\n"

EXAMPLE_PROFILE = r"""
schema: hotplugctl.profile/1
id: example
name: Example accelerator
match:
  vendor: ["1de5"]
  device: ["0010"]
  class: ["1200"]
  exclude: {device: ["00ff"]}
models: {"0010": "E10"}
drivers: [example]
passthrough: [vfio-pci]
classes: [accel]
nodes: ["/dev/example{index}"]
index: {attribute: example_id}
groups: [render]
bars: [{index: 0, min_size: 64M}]
initialised: {attribute: status, equals: operational}
handshake:
  argv: [example-smi, health, "{index}"]
  expect: 'OK'
  timeout: 5s
  passes: 2
  interval: 1s
  max_age: 5m
readiness: full
tools: {index: {argv: [example-smi, map], parse: npu_smi_map}}
logs: [{path: "/var/log/example/*.log", kind: text}]
quiesce: [{unit: example-exporter, why: "keeps every card open"}]
any_driver: false
""".strip() + "\n"

_RULE_KEYS: Mapping[str, str] = {
    "id": "Its name. A rule of rules.d takes the place of the shipped one of the same name.",
    "root_cause": "What it concludes: an id of the taxonomy; `hotplugctl diagnose --explain` *id* shows it.",
    "title": "One sentence. `{address}`, facts such as `{link.width}` and named groups of log patterns are filled in.",
    "when": "The condition; see below.",
    "cause": "What is behind it, for a person.",
    "severity": f"One of {', '.join(f'`{one.value}`' for one in Severity)}; the root cause's own unless said.",
    "action": "What to do next; the root cause's own unless said.",
    "confidence": "`certain`, `likely` (unless said) or `possible`.",
    "blocks": f"The rung it keeps a device from: {', '.join(f'`{rung.value}`' for rung in LADDER)}. On a rule of root "
              "cause `none` it is the beginning of a step towards that rung, and nothing is healthy until a later line "
              "shows the step done.",
    "explains": "Root causes that follow from this one, a list. Their findings are folded under it.",
    "examples": "`fires` and `quiet`: facts and log lines with which it holds, and with which it does not.",
}
_COMPARED: Mapping[str, str] = {
    "eq": "equal", "ne": "not equal", "lt": "less", "le": "less or equal", "gt": "greater", "ge": "greater or equal",
    "in": "one of a list", "contains": "the fact, a list or text, holds the value",
}
_PROFILE_KEYS: Mapping[str, str] = {
    "id": "Its name, used by `--vendor` and in documents. A profile of vendors.d takes the place of the shipped one.",
    "name": "The vendor, or what the cards are called.",
    "match": "Which functions it covers: `vendor`, `device` (hexadecimal ids), `class` (by prefix); all that are given "
             "must match. `exclude` takes the same keys and wins.",
    "models": "Names of models by device id.",
    "drivers": "Any of these is the right driver.",
    "passthrough": "Bound to one of these a card is handed to a virtual machine, which is no fault.",
    "classes": "Kernel classes whose child device makes the node.",
    "nodes": "Device nodes that the kernel has no device for; `{index}` is filled in.",
    "index": "The PCI `attribute` that holds the card's number; several numbers are several chips.",
    "groups": "Who may open the nodes.",
    "bars": "What the card must have: `index`, and `min_size`.",
    "initialised": "The PCI `attribute` that `equals` this once the firmware runs.",
    "handshake": "The independent health check. `argv` runs without a shell, with `{index}` and `{address}` filled in; "
                 "it must end with 0 and print what the pattern `expect` matches, within `timeout`, `passes` times, "
                 "`interval` apart. Its result counts for `max_age`. Without a handshake `initialised` is enough.",
    "readiness": "`full` or `lazy`; see `hotplugctl-config`(5).",
    "tools": "Vendor tools that answer one question, each with `argv` and `parse`.",
    "logs": "Where the vendor writes logs (`path`, a glob) and in which form (`kind`).",
    "quiesce": "Units that hold every card open: `unit`, and `why`.",
    "any_driver": "`true`: any driver is right. Such a profile comes last.",
}
_VALUES = {"str": "text", "int": "whole number", "float": "number", "bool": "true or false", "tuple": "list",
           "dict": "any key"}


def text() -> str:
    """The page."""
    page = Page("hotplugctl-rules", 5, "rules and vendor profiles of hotplugctl")
    page.section("description")
    page.text(
        "What `hotplugctl-diagnose`(1) concludes is written down as rules, and what `hotplugctl` knows of the cards of "
        "each vendor as profiles. Both are YAML. Those in /etc/hotplugctl are read beside the shipped ones, see FILES. "
        "All errors of all files are reported together, with file, line and the nearest known word.",
    )
    _rules(page)
    _conditions(page)
    _facts(page)
    _profiles(page)
    page.section("files")
    page.item("/etc/hotplugctl/rules.d/*.yaml", f"Rules, with `schema: {schema.RULES}` and a list `rules`.")
    page.item("/etc/hotplugctl/vendors.d/*.yaml", f"Vendor profiles, one a file, with `schema: {schema.PROFILE}`.")
    page.see_also("hotplugctl(1)", "hotplugctl-diagnose(1)", "hotplugctl-config(5)")
    return str(page)


def _rules(page: Page) -> None:
    page.section("rules")
    for field in fields(Rule):
        if field.name != "where":  # kept by the loader, not written
            page.item(f"`{field.name}`", _RULE_KEYS[field.name])
    page.text("Needed are `id`, `root_cause`, `title`, `when`, `cause` and `examples`.")
    page.block(EXAMPLE_RULES.splitlines())


def _conditions(page: Page) -> None:
    page.section("conditions")
    page.text(
        "A rule is judged for each device, with the port and the slot above it, and for ports and slots that show no "
        "device. A condition is yes, no or unknown. What could not be looked at is unknown, and a rule on it is *not "
        "checked*: it never fires and never clears anything. A condition has exactly one of these keys:"
    )
    page.item("`all:` *list*, `any:` *list*, `not:` *condition*", "As in logic; the unknown stays unknown unless the "
              "rest decides.")
    page.item("`fact:` *name*", "A fact, with exactly one comparison:")
    page.block(f"{word:<10}{_COMPARED[word]}" for word in grammar.COMPARISONS)
    page.text(
        "The other side is a value of the fact's own type, or another fact, written `{fact:` *name*`}`. In place of a "
        "comparison there may be `is: present`, `is: absent` (looked, and not there) or `is: unknown`. A comparison "
        "with what is absent is no."
    )
    page.item(
        "`log:` *pattern*",
        "A regular expression (Python's) that a line about this device, its port or its slot matches. `count: {ge:` "
        "*N*`}` asks for several, `within:` *D* for all of them in that time. A log that was not captured is unknown.",
    )
    page.text(
        "Beside any of them `unless:` *list* holds conditions that make it harmless. A line that matches a pattern "
        "there excuses the lines of the condition; with `after: true` only those before it, with `within:` *D* only "
        "those as near. Where both patterns have a named group of the same name, it must have caught the same text."
    )


def _facts(page: Page) -> None:
    page.section("facts")
    page.text(
        "Facts have the names of the keys of the JSON documents, see `hotplugctl`(1). Those of the port nearest above "
        "the device begin with `port.`, of its slot with `slot.`, of its vendor profile with `profile.`, of the "
        "machine with `machine.` (`port.link.width`); `slot` alone is the slot's name."
    )
    known = facts.names()
    wide = max(len(name) for name in known) + 2
    page.block(f"{name:<{wide}}{_VALUES.get(kind.__name__, 'present or absent')}" for name, kind in known.items())


def _profiles(page: Page) -> None:
    page.section("vendor profiles")
    for field in fields(Profile):
        page.item(f"`{field.name}`", _PROFILE_KEYS[field.name])
    page.text("Needed are `id`, `name` and `match`. With every key once:")
    page.block(EXAMPLE_PROFILE.splitlines())

"""hotplugctl-config(5): the files, and every setting of config.Settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from hotplugctl import config

from .roff import Page

_LATER = " Used by `hotplugctl-watch`(1)."
# Each field of Settings: how the file writes it, and what it means.
SETTINGS: Mapping[str, tuple[str, str]] = {
    "budget_add": ("`budgets.add` *D*", "How long a card may take to become ready." + _LATER),
    "budget_remove": ("`budgets.remove` *D*", "How long a removal may take until service is restored." + _LATER),
    "readiness": (
        "`readiness` `full`|`lazy`",
        "`full`: a card's firmware must run before it is `initialised`. `lazy`: its first job loads the firmware, so "
        "that is not waited for; its device nodes still are. If set it wins over the vendor profiles.",
    ),
    "labels": (
        "`labels` *list*",
        "Rules, each with `when` and `set`. A device gets the labels in `set` when every field named in `when` "
        "matches; `vendor` is the id of its profile, every other name a field of its JSON document. Patterns are shell "
        "globs, compared without regard to case. Later rules win.",
    ),
    "slots": (
        "`slots` *map*",
        "Printed names of slots, by the address of the port above the slot or by the kernel's name of the slot.",
    ),
    "warmup": ("`warmup` *map*", "`argv` and `timeout` of what is run when a card becomes ready." + _LATER),
    "sinks": ("`sinks` *list*", "Where changes are sent: entries with a `url`." + _LATER),
    "hooks": ("`hooks` *directory*", "Programs that are run for every change." + _LATER),
    "scheduler": (
        "`scheduler` `auto`|`none`|`slurm`|`kubernetes`",
        "Who places work on the cards. Used by `hotplugctl-drain`(1).",
    ),
    "logs": (
        "`logs` *list*",
        "Log files of what runs on the cards, each with a `path` (absolute; `*` and `**` as in the shell) and a "
        "`kind`: `application` (default), `runtime` or `text`. `hotplugctl-diagnose`(1) reads the end of the newest "
        "ones, and of what they say the last hour (or `--since`).",
    ),
    "spool": ("`spool` *file*", "Where changes wait while a network sink cannot be reached." + _LATER),
}
EXAMPLE = """\
budgets: {add: 3s, remove: 1s}
labels:
  - when: {vendor: nvidia, model: "*H100*"}
    set: {pool: training, batch: "2026-11"}
slots: {"0000:3a:01.0": "riser 2, slot 5"}
warmup: {argv: [/usr/local/bin/warm, "{address}"], timeout: 30s}
sinks:
  - url: "kafka://broker:9092/hotplug"
hooks: /etc/hotplugctl/hooks.d
scheduler: auto
spool: /var/lib/hotplugctl/spool.sqlite
logs:
  - {path: "/var/log/serving/**/*.log", kind: application}
"""


def text() -> str:
    """The page."""
    page = Page("hotplugctl-config", 5, "the configuration of hotplugctl")
    page.section("description")
    page.text(
        "The configuration is YAML. It is looked for in this order, and the first that is there is used:",
    )
    page.block([
        "--config FILE", "$HOTPLUGCTL_CONFIG", "$XDG_CONFIG_HOME/hotplugctl/config.yaml  (~/.config if unset)",
        "/etc/hotplugctl/config.yaml, then /etc/hotplugctl/conf.d/*.yaml",
    ])
    page.text(
        "Files of conf.d are read in the order of their names, each on top of the ones before: lists grow, maps are "
        "joined, a single value is replaced. Without any file the defaults hold. A file that was named and is not "
        "there is an error.",
        "A flag wins over the environment, the environment over the files, the files over the defaults. "
        "`hotplugctl list --show-config` shows every setting and where it is from.",
        "As root a file is refused unless it, and every directory above it, belongs to root and can be written by "
        "nobody else. That holds for configuration, profiles and rules alike.",
        "An unknown key, a key that is there twice and a wrong value are errors; all errors of all files are reported "
        "together, with file and line.",
    )
    page.section("settings")
    page.text("A duration *D* is written `500ms`, `3s` or `5m`.")
    shown = {name: value for name, value, _ in config.shown(config.Settings())}
    for field in fields(config.Settings):
        if field.name == "sources":
            continue
        default = shown[config.key_of(field.name)]
        said = "There is no default." if default == "-" else f"The default is `{default}`."
        variable = config._ENVIRONMENT.get(field.name)
        more = f" Environment: `{variable}`." if variable else ""
        term, meaning = SETTINGS[field.name]
        page.item(term, f"{meaning} {said}{more}")
    page.section("examples")
    page.block(EXAMPLE.splitlines())
    page.see_also("hotplugctl(1)", "hotplugctl-rules(5)")
    return str(page)

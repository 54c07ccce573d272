"""A command line told again, so that whoever reads its result can make it anew. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import fields

from .model import ADDRESS
from .options import Common
from .select import Filters


def diagnose(
    common: Common, devices: Sequence[str], paths: Sequence[str], filters: Filters, *, since: str | None, fail_on: str,
) -> str:
    """The command that makes a case's page; with --redact, what may name a machine or a person is a placeholder."""

    def shown(word: str, placeholder: str) -> str:
        harmless = ADDRESS.fullmatch(word) or word in ("all", "demo")
        return placeholder if common.redact and not harmless else word

    words = ["hotplugctl", "diagnose", *(shown(device, "DEVICE") for device in devices)]
    words += [word for path in paths for word in ("--from", shown(path, "FILE"))]
    given = [
        ("--root", shown(common.root, "PATH") if common.root != "/" else None),
        ("--config", shown(common.config, "FILE") if common.config is not None else None),
        ("--since", since), ("--fail-on", fail_on if fail_on != "warning" else None),
        *((f"--{one.name}", shown(str(value), one.name.upper())) for one in fields(filters)
          for value in getattr(filters, one.name)),
    ]
    words += [word for option, value in given if value is not None for word in (option, value)]
    return shlex.join([*words, *(["--redact"] if common.redact else []), "-o", "html"])

"""The list of generated files, and how each is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from hotplugctl.errors import HotplugError
from hotplugctl.rules import load

from . import bash, fish, man_config, man_events, man_main, man_rules, man_verbs, schemas, zsh
from .commands import VERBS

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("completions", "man", "hotplugctl/data/schemas")  # hold nothing that is not generated


def made() -> Mapping[str, Callable[[], str]]:
    """Every generated file by its path in the tree, with the function that makes its text."""
    return {
        "hotplugctl/data/rules.json": load.compile_rules,
        "hotplugctl/data/vendors.json": load.compile_profiles,
        "hotplugctl/data/taxonomy.json": load.compile_taxonomy,
        "completions/hotplugctl.bash": bash.text,
        "completions/_hotplugctl": zsh.text,
        "completions/hotplugctl.fish": fish.text,
        "man/hotplugctl.1": man_main.text,
        "man/hotplugctl-config.5": man_config.text,
        "man/hotplugctl-rules.5": man_rules.text,
        "man/hotplugctl-events.7": man_events.text,
        **{f"man/hotplugctl-{verb}.1": man_verbs.maker(verb) for verb in VERBS},
        **{f"hotplugctl/data/schemas/{name}.schema.json": schemas.maker(name) for name in schemas.DOCUMENTS},
    }


def drift(paths: tuple[str, ...] = ()) -> list[str]:
    """What is not as it would be written now, a sentence each; of all files, or of `paths`."""
    found = []
    for path, make in made().items():
        if paths and path not in paths:
            continue
        try:
            text = make()
        except HotplugError as error:
            found.append(f"{path} cannot be made: {error}")
            continue
        file = ROOT / path
        if not file.is_file():
            found.append(f"{path} is missing: python -m tests.generate")
        elif file.read_text(encoding="utf-8") != text:
            found.append(f"{path} has drifted from what it is made of: python -m tests.generate")
    return [*found, *(f"{path} is made by nothing: remove it" for path in strays() if not paths or path in paths)]


def write() -> list[str]:
    """Write what has drifted, a sentence each; what cannot be made is said and left as it is."""
    found = []
    for path, make in made().items():
        file = ROOT / path
        try:
            text = make()
        except HotplugError as error:
            found.append(f"{path} cannot be made: {error}")
            continue
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            found.append(f"wrote {path}")
    return [*found, *(f"{path} is made by nothing: remove it" for path in strays())]


def strays() -> list[str]:
    """Files in the generated folders that nothing here makes."""
    known = made()
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).glob("*"))]
    return [name for name in (file.relative_to(ROOT).as_posix() for file in files) if name not in known]

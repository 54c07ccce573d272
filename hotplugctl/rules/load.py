"""Vendor profiles, rules and the taxonomy: from YAML with every error at once, at run time from the shipped JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model import Profile, RootCause, Rule
from . import hearing
from .forms import profile_from, profile_to, root_cause_from, rule_from

if TYPE_CHECKING:
    from .shapes import Node, Problems

__all__ = [
    "compile_profiles", "compile_rules", "compile_taxonomy", "load_profiles", "load_rules", "load_taxonomy",
    "profile_from", "profile_to", "profiles", "rules", "taxonomy",
]

DATA = Path(__file__).parent.parent / "data"
LAYERS = ("hardware", "driver", "runtime", "application", "harmless", "trouble")


def rules(extra: Sequence[Path] = ()) -> tuple[Rule, ...]:
    """The shipped rules, and those of the files in `extra`; one of the same id there takes a shipped one's place."""
    own = load_rules(extra, examples=True) if extra else ()
    taken = {rule.id for rule in own}
    return (*(rule for rule in _shipped_rules() if rule.id not in taken), *own)


def profiles(extra: Sequence[Path] = ()) -> tuple[Profile, ...]:
    """The shipped profiles, and those of the files in `extra`; one of the same id there takes a shipped one's place.

    Most specific first: the generic one, which takes any driver, comes last.
    """
    own = load_profiles(extra) if extra else ()
    taken = {profile.id for profile in own}
    found = (*own, *(profile for profile in _shipped_profiles() if profile.id not in taken))
    return tuple(sorted(found, key=lambda profile: profile.any_driver))


@cache
def taxonomy() -> Mapping[str, RootCause]:
    """What diagnose may conclude, by id."""
    plain = _json("taxonomy.json") or _plain_taxonomy()
    return {name: root_cause_from(name, cause) for name, cause in plain.items()}


@cache
def _shipped_rules() -> tuple[Rule, ...]:
    plain = _json("rules.json")
    if plain is None:
        return load_rules(rule_files())
    hearing.TEXTS.update({pattern: tuple(texts) for pattern, texts in plain["texts"].items()})
    return tuple(rule_from(rule) for rule in plain["rules"])


@cache
def _shipped_profiles() -> tuple[Profile, ...]:
    plain = _json("vendors.json")
    return load_profiles(profile_files()) if plain is None else tuple(profile_from(profile) for profile in plain)


def compile_rules() -> str:
    """The text of data/rules.json: the rules, and the fixed texts of their patterns.

    Examples stay in the YAML: they are for the tests and the reader.
    """
    plain = [{**rule, "where": where} for rule, where in _read_rules(rule_files())]
    for rule in plain:
        del rule["examples"]
    patterns = dict.fromkeys(pattern for rule in plain for pattern in hearing.patterns_of(rule["when"]))
    return _dump({"rules": plain, "texts": {pattern: hearing.fixed_texts(pattern) for pattern in patterns}})


def compile_profiles() -> str:
    """The text of data/vendors.json."""
    return _dump([profile_to(profile) for profile in load_profiles(profile_files())])


def compile_taxonomy() -> str:
    """The text of data/taxonomy.json."""
    return _dump(_plain_taxonomy())


def load_rules(files: Iterable[Path], *, examples: bool = False) -> tuple[Rule, ...]:
    """The rules of YAML files. Raises one HotplugError (usage) that names every error as `file:line: rule ID: ...`.

    `examples`: a rule whose own examples do not come out as they say is an error too.
    """
    return tuple(rule_from(plain, where) for plain, where in _read_rules(files, examples=examples))


def load_profiles(files: Iterable[Path]) -> tuple[Profile, ...]:
    """The profiles of YAML files, one each. Raises one HotplugError (usage) that names every error."""
    from .schema import PROFILE_SHAPE
    from .shapes import BAD, Problems, compose

    problems, found = Problems(), []
    first: dict[str, str] = {}
    for path in files:
        root = compose(problems, path)
        plain = PROFILE_SHAPE(problems, root) if root is not None else BAD
        if plain is BAD:
            continue
        if plain["id"] in first:
            problems.add(root, f"profile {plain['id']} is already in {first[plain['id']]}")
        first[plain["id"]] = str(path)
        found.append(profile_from(plain))
    problems.check("vendor profiles")
    return tuple(found)


def load_taxonomy(path: Path) -> Mapping[str, Any]:
    """The plain entries of a taxonomy file by id. Raises one HotplugError (usage) that names every error."""
    from .schema import TAXONOMY_SHAPE
    from .shapes import BAD, Problems, compose

    problems = Problems()
    root = compose(problems, path)
    plain = TAXONOMY_SHAPE(problems, root) if root is not None else BAD
    problems.check("taxonomy")
    return {name: {key: cause[key] for key in cause if key != "coarse"} for name, cause in plain["root_causes"].items()}


def _plain_taxonomy() -> Mapping[str, Any]:
    return load_taxonomy(DATA / "taxonomy.yaml")


def _read_rules(files: Iterable[Path], *, examples: bool = False) -> list[tuple[dict[str, Any], str]]:
    """Plain rules, each with the file it came from; all errors of all files are raised together."""
    from .schema import RULES, rule_shape
    from .shapes import BAD, Problems, compose, items, near, one_of, pairs, text

    causes = frozenset(_plain_taxonomy())

    def root_cause(problems: Problems, node: Node) -> Any:
        name = text(problems, node)
        if name is BAD or name in causes:
            return name
        return problems.add(node, f"no root cause named {name}{near(name, causes)}")

    problems, found, shape = Problems(), [], rule_shape(root_cause)
    first: dict[str, str] = {}
    for path in files:
        root = compose(problems, path)
        keys = pairs(problems, root) if root is not None else None
        if keys is None:
            continue
        if "schema" in keys:
            one_of(RULES)(problems, keys["schema"][1])
        else:
            problems.add(root, f"schema: {RULES} is missing")
        for key in keys:
            if key not in ("schema", "rules"):
                problems.add(keys[key][0], f"no key named {key}{near(key, ('schema', 'rules'))}")
        for node in items(problems, keys["rules"][1]) if "rules" in keys else []:
            name = _id_of(node)
            problems.about = f"rule {name}: " if name else ""
            try:
                plain = shape(problems, node)
            except RecursionError:
                plain = problems.add(node, "refers to itself")
            if name and name in first:
                problems.add(node, f"is already in {first[name]}")
            first.setdefault(name, path.name)
            if plain is not BAD:
                found.append((plain, path.name))
                if examples:
                    _check_examples(problems, node, rule_from(plain, path.name))
            problems.about = ""
    problems.check("rules")
    return found


def _check_examples(problems: Problems, node: Node, rule: Rule) -> None:
    """Note each example of a well-formed rule that does not come out as it says, at its own line."""
    import yaml

    from .examples import wrong
    from .shapes import pairs

    shown = pairs(problems, (pairs(problems, node) or {})["examples"][1]) or {}
    for kind, number, what in wrong(rule, profiles()):
        place = shown[kind][1]
        problems.add(place.value[number] if isinstance(place, yaml.SequenceNode) else place, what)


def _id_of(node: Node) -> str:
    """The id of a rule's node, for the error texts; empty when it has none."""
    from .shapes import Problems, pairs

    keys = pairs(Problems(), node) or {}
    return str(keys["id"][1].value) if "id" in keys else ""


def rule_files() -> tuple[Path, ...]:
    """The authored rule files that ship, in the order of the layers."""
    return tuple(DATA / "rules" / f"{layer}.yaml" for layer in LAYERS)


def profile_files() -> tuple[Path, ...]:
    """The authored profiles that ship."""
    return tuple(sorted((DATA / "vendors").glob("*.yaml")))


def _json(name: str) -> Any:
    """A shipped JSON file, or None in a source tree where `python -m tests.generate` has not run yet."""
    try:
        return json.loads((DATA / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def _dump(plain: Any) -> str:
    return json.dumps(plain, indent=1, ensure_ascii=False, sort_keys=True) + "\n"

"""What a rule or a root cause says and looks for: `diagnose --explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import Exit, HotplugError
from ..model import RootCause, Rule


@dataclass(frozen=True, slots=True)
class Explanation:
    """A root cause with the rules that conclude it."""

    root_cause: RootCause
    rules: tuple[Rule, ...]


def explain(name: str, rules: Sequence[Rule], taxonomy: Mapping[str, RootCause]) -> Explanation:
    """The root cause of that id with all its rules, or that of the rule with that id and only it.

    Raises HotplugError (usage) with near matches when there is neither.
    """
    if name in taxonomy:
        return Explanation(taxonomy[name], tuple(rule for rule in rules if rule.root_cause == name))
    rule = next((rule for rule in rules if rule.id == name), None)
    if rule is not None:
        return Explanation(taxonomy[rule.root_cause], (rule,))
    import difflib

    near = difflib.get_close_matches(name, [*taxonomy, *(rule.id for rule in rules)], n=3, cutoff=0.5)
    raise HotplugError(
        f"no rule and no root cause named {name}", why=f"near: {', '.join(near)}" if near else "",
        hint="man 5 hotplugctl-rules", exit=Exit.USAGE,
    )

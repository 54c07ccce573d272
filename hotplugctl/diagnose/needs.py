"""What a diagnosis reads of log lines: a scan of a large log need keep no line that holds nothing of it. Pure.

Beside the patterns of the rules that is what the reasoning itself looks for in lines that no rule names. Addresses and
slots are not here: the readers find those, and keep every line that names one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..model import Rule
from ..rules.hearing import patterns_of
from . import counts, unexplained

_OWN = (
    f"(?i){unexplained.FAILURE.pattern}", *map(re.escape, unexplained.STUCK),
    counts.LISTED.pattern, counts.NO_CARD.pattern, counts.ALLOCATABLE.pattern, counts.DEVICE_COUNT.pattern,
    counts.MASKED.pattern, counts.COUNTED.pattern,
    counts.NOTHING_OFFERED.pattern, counts.OFFERED.pattern,
    "NVRM:|nvidia",     # bursts of them belong together (instances)
    "pci",              # tells whether a kernel log was captured at all (report)
)
# A line that holds such a word, and so many below it.
FOLLOWED: Mapping[str, int] = {
    # Three lines of a /dev/kmsg file are one record.
    **dict.fromkeys(unexplained.STUCK, 3 * unexplained.REPORT),
    "llocatable": counts.ALLOCATABLE_LINES,
    "wc -l": 1,
}


def patterns(rules: Sequence[Rule]) -> tuple[str, ...]:
    """All that is looked for in lines, by the rules in force and beside them."""
    return tuple(dict.fromkeys((*(pattern for rule in rules for pattern in patterns_of(rule.when)), *_OWN)))

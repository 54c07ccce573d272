"""Why a hot-plug failed: rules judged for each device and slot, ranked to one root cause each, with the proof. Pure.

`diagnose` is one straight line: settle which device each log line is about, hear the patterns, gather the places,
judge, rank, conclude. What cannot be told is `unknown`, with what to collect next.
"""

from __future__ import annotations

from .conclude import diagnose
from .explain import Explanation, explain
from .findings import HELD_EXPLAINS
from .scene import KERNEL_LOGS, Scene, scene

__all__ = ["HELD_EXPLAINS", "KERNEL_LOGS", "Explanation", "Scene", "diagnose", "explain", "scene"]

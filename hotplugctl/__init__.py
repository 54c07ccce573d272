"""hotplugctl: see, watch, drain and diagnose PCIe accelerators that come and go while the machine runs.

For applications: `Listener` and `listen`, imported when first used, so that importing hotplugctl costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .listener import Listener, listen

__version__ = "0.1.0"
__all__ = ["Listener", "__version__", "listen"]


def __getattr__(name: str) -> Any:
    if name in ("Listener", "listen"):
        from . import listener

        return getattr(listener, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

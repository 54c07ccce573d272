"""How much of a log line is shown: a line may be the whole of a file that has no line ends."""

from __future__ import annotations

MOST_TEXT = 2000        # characters


def excerpt(text: str, most: int = MOST_TEXT) -> str:
    """The text, cut to `most` characters with a mark that says how much was left out."""
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]} ... ({left:,} characters left out)"

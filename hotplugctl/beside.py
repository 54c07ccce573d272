"""What a machine tells beside sysfs and the kernel's buffer: its journal, the logs of vendors and of applications."""

from __future__ import annotations

from datetime import datetime, timedelta

from .look import Look, profile_for
from .model import Gap, LogFile, LogLine, Maybe, Unknown
from .options import duration
from .readers import logfiles, logs

RECENT = "1h"           # how far back the logs of runtimes and applications count, unless --since says otherwise
EARLY = 5.0             # seconds after the boot by which the kernel has written its first line


def kernel_lines(seen: Look) -> Maybe[tuple[LogLine, ...]]:
    """The kernel's buffer; where it may not be read, or has lost its beginning, what the journal has before it."""
    buffer = seen.kernel_log
    known = buffer if isinstance(buffer, tuple) else ()
    first = next((line.monotonic for line in known if line.monotonic is not None), None)
    if known and (first is None or first <= EARLY):
        return buffer
    text = seen.host.log(logs.JOURNAL)
    if not isinstance(text, str):
        return buffer
    earlier = tuple(
        line for line in logs.read_log(text, logs.JOURNAL_SOURCE)
        if first is None or (line.monotonic is not None and line.monotonic < first))
    return (*earlier, *known) if earlier or known else buffer


def files_of(seen: Look) -> tuple[LogFile, ...]:
    """The logs of the vendors whose cards are here, and those that the configuration names."""
    profiles = {p.id: p for f in seen.functions if (p := profile_for(seen.profiles, f)) is not None}
    return (*(log for profile in profiles.values() for log in profile.logs), *seen.settings.logs)


def lines_of(seen: Look, since: str | None) -> tuple[tuple[LogLine, ...], tuple[Gap, ...]]:
    """What the log files say of the last `since`; a machine that was looked at knows what time it is."""
    back = min(duration(since or RECENT, "--since"), seen.host.now())
    return logfiles.read(seen.host, files_of(seen), datetime.fromtimestamp(seen.host.now()) - timedelta(seconds=back))


def gap_of(log: Maybe[tuple[LogLine, ...]]) -> tuple[Gap, ...]:
    """That the kernel log could not be read."""
    return (Gap("kernel log", log.why),) if isinstance(log, Unknown) else ()

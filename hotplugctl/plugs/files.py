"""Files for other programs that read whenever they like: they see the old text or the new one, whole."""

from __future__ import annotations

import os
from contextlib import suppress

from ..errors import Exit, HotplugError


def write_whole(path: str, text: str) -> None:
    """Replace a file by another text, readable by all. Raises HotplugError(FAILED) when it cannot be written.

    The unfinished one is a dot file beside it: node_exporter reads `*.prom`, node-feature-discovery leaves dot files
    alone. There is no sync: after a crash of the machine it is written anew anyway.
    """
    folder, name = os.path.split(path)
    partial = os.path.join(folder, f".{name}.{os.getpid()}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            os.fchmod(descriptor, 0o644)  # whatever the umask: the reader is another user
            file.write(text)
        os.replace(partial, path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(partial)
        raise HotplugError(
            f"cannot write {path}", why=str(error.strerror), hint="name a file in a folder that is there and writable",
            exit=Exit.FAILED,
        ) from error

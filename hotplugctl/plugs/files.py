"""Files for other programs that read whenever they like: they see the old text or the new one, whole."""

from __future__ import annotations

from ..errors import Exit, HotplugError
from ..host import files


def write_whole(path: str, text: str) -> None:
    """Replace a file by another text. Raises HotplugError(FAILED) when it cannot be written.

    There is no sync: after a crash of the machine it is written anew anyway.
    """
    try:
        files.write_whole(path, text)
    except OSError as error:
        raise HotplugError(
            f"cannot write {path}", why=str(error.strerror), hint="name a file in a folder that is there and writable",
            exit=Exit.FAILED,
        ) from error

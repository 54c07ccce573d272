"""Events on disk until every sink has them: what was put is delivered, whatever ends in between.

One SQLite file, one owner. `put` returns when the disk has the event (WAL with synchronous=FULL: one sync a commit);
a sink's acknowledgement need not be that durable, since its loss only means a duplicate with the same id.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from ..errors import Exit, HotplugError
from .envelope import Event

LIMIT = 64 << 20
ROW = 100               # bytes that SQLite needs for an event beside its text, and again for each sink it is owed to
APPLICATION = 0x68706374
VERSION = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS event (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, key TEXT NOT NULL, document TEXT NOT NULL,
    bytes INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS owed (sink TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (sink, seq)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS owed_by_event ON owed (seq);
CREATE TABLE IF NOT EXISTS dropped (unannounced INTEGER NOT NULL);
"""

T = TypeVar("T")


def _silent(_text: str) -> None:
    """Nobody wants to hear."""


class Spool:
    """Events owed to sinks. Every method may be called from any thread.

    Raises HotplugError(REFUSED) naming the owner when another process has the file, DENIED or FAILED when it cannot be
    kept. `say` gets a sentence when a damaged file was moved aside. When more than `limit` bytes wait, the oldest
    events go, and are counted.
    """

    def __init__(self, path: str, limit: int = LIMIT, say: Callable[[str], None] = _silent) -> None:
        self.path = path
        self.limit = limit
        self._say = say
        self._mutex = threading.Lock()
        self._used = 0
        known, self._owner = _own(path)
        try:
            self._database = self._opened(ours=known)
        except BaseException:
            os.close(self._owner)
            raise

    def put(self, event: Event, sinks: Iterable[str]) -> None:
        """Keep an event until each of the sinks has it. On disk when this returns."""
        self.put_many([event], sinks)

    def put_many(self, events: Sequence[Event], sinks: Iterable[str], *, announced: int = 0) -> None:
        """Keep events, all or none of them. An id that waits already is not kept twice.

        `announced` dropped events are told by one of these, so that `dropped` no longer counts them: in the same
        commit, so that a crash neither loses nor repeats the number.
        """
        names = tuple(dict.fromkeys(sinks))

        def work(database: sqlite3.Connection) -> int:
            added = sum(_insert(database, event, names) for event in events)
            lost, freed = _make_room(database, self._used + added - self.limit)
            if lost or announced:
                database.execute("UPDATE dropped SET unannounced = max(0, unannounced + ?)", (lost - announced,))
            return self._used + added - freed

        with self._mutex:
            self._used = self._commit(work, durable=True)

    def owed(self, sink: str, most: int) -> list[Event]:
        """The oldest events the sink has not acknowledged, in the order they were put."""
        def work(database: sqlite3.Connection) -> list[Event]:
            rows = database.execute(
                "SELECT id, key, document FROM owed JOIN event USING (seq) WHERE sink = ? ORDER BY owed.seq LIMIT ?",
                (sink, most),
            )
            return [Event(*row) for row in rows]

        with self._mutex:
            return self._commit(work, durable=False)

    def settle(self, sink: str, ids: Iterable[str]) -> None:
        """The sink has these events, or will never take them; what no sink is owed is removed."""
        wanted = [(id,) for id in ids]

        def work(database: sqlite3.Connection) -> int:
            freed = 0
            for id in wanted:
                row = database.execute("SELECT seq, bytes FROM event WHERE id = ?", id).fetchone()
                if row is None:
                    continue  # dropped while it was on its way
                database.execute("DELETE FROM owed WHERE sink = ? AND seq = ?", (sink, row[0]))
                gone = database.execute(
                    "DELETE FROM event WHERE seq = ?1 AND NOT EXISTS (SELECT 1 FROM owed WHERE seq = ?1)", row[:1])
                freed += row[1] if gone.rowcount else 0
            return self._used - freed

        with self._mutex:
            self._used = self._commit(work, durable=False)

    def depth(self) -> Mapping[str, int]:
        """How many events wait, by sink; also for sinks of earlier runs."""
        with self._mutex:
            return self._commit(
                lambda database: dict(database.execute("SELECT sink, count(*) FROM owed GROUP BY sink").fetchall()),
                durable=False,
            )

    def dropped(self) -> int:
        """How many events were dropped for want of room and not announced yet; kept over restarts."""
        with self._mutex:
            return self._commit(
                lambda database: int(database.execute("SELECT unannounced FROM dropped").fetchone()[0]), durable=False)

    def close(self) -> None:
        """Let the next owner in. What waits stays."""
        with self._mutex:
            self._database.close()
            if self._owner >= 0:
                os.close(self._owner)
                self._owner = -1

    def _commit(self, work: Callable[[sqlite3.Connection], T], *, durable: bool) -> T:
        try:
            return _transaction(self._database, work, durable=durable)
        except sqlite3.Error as error:
            if not _is_damage(error):
                raise _trouble(self.path, error) from error
            self._database.close()
            self._database = self._anew(error)
            return _transaction(self._database, work, durable=durable)

    def _opened(self, *, ours: bool) -> sqlite3.Connection:
        try:
            database = _connect(self.path)
        except sqlite3.Error as error:
            if not _is_damage(error):
                raise _trouble(self.path, error) from error
            if not ours:  # a wrong path in the configuration must not move somebody's file
                raise HotplugError(
                    f"{self.path} is no spool", why="it is a file of something else",
                    hint="name a file that is not there as the spool", exit=Exit.USAGE,
                ) from error
            return self._anew(error)
        self._used = int(database.execute("SELECT coalesce(sum(bytes), 0) FROM event").fetchone()[0])
        return database

    def _anew(self, error: sqlite3.Error) -> sqlite3.Connection:
        """An empty spool in place of a damaged one, which is kept beside it (one; an older one makes way)."""
        aside = f"{self.path}.damaged"
        try:
            for end in ("", "-wal"):
                if os.path.exists(self.path + end):
                    os.replace(self.path + end, aside + end)
            self._used = 0
            database = _connect(self.path)
        except (OSError, sqlite3.Error) as another:
            raise _trouble(self.path, another) from another
        self._say(f"the spool {self.path} is damaged ({error}): moved to {aside}, where events may remain that no sink "
                  "has; going on with an empty one")
        return database


def _own(path: str) -> tuple[bool, int]:
    """(was there a spool before, the descriptor of its lock). The lock goes with the process, however that ends."""
    lock = f"{path}.lock"
    known = os.path.exists(lock)
    try:
        os.makedirs(os.path.dirname(path) or ".", mode=0o755, exist_ok=True)
        owner = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise HotplugError(
            f"cannot keep events in {path}", why=str(error.strerror),
            hint="run as root, or name another place: spool: PATH in the configuration", exit=Exit.DENIED,
        ) from error
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.pread(owner, 20, 0).decode(errors="backslashreplace").strip() or "unknown"
        os.close(owner)
        raise HotplugError(
            f"the spool {path} is in use", why=f"another watch with sinks has it, pid {pid}",
            hint="end that one, or leave the sinks out of this one, or give it a spool of its own", exit=Exit.REFUSED,
        ) from None
    os.ftruncate(owner, 0)
    os.pwrite(owner, f"{os.getpid()}\n".encode(), 0)
    return known, owner


def _connect(path: str) -> sqlite3.Connection:
    # Documents carry serial numbers: for the owner's eyes; -wal gets the file's mode (sqlite3/os_unix.c).
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    database = sqlite3.connect(path, timeout=1.0, isolation_level=None, check_same_thread=False)
    try:
        # Exclusive: we are the only one, and WAL then needs no shared memory, which network file systems lack.
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        _ours(database, path)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute(f"PRAGMA journal_size_limit = {4 << 20}")
        database.executescript(SCHEMA)
        database.execute("INSERT INTO dropped SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM dropped)")
        said = database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if said != "ok":
            raise sqlite3.DatabaseError(said)
    except BaseException:
        database.close()
        raise
    return database


def _ours(database: sqlite3.Connection, path: str) -> None:
    """Raises HotplugError for the database of another program, or of a hotplugctl that came later."""
    if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        database.execute(f"PRAGMA application_id = {APPLICATION}")
        database.execute(f"PRAGMA user_version = {VERSION}")
        return
    application = database.execute("PRAGMA application_id").fetchone()[0]
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION or version != VERSION:
        whose = f"a hotplugctl with spools of version {version}" if application == APPLICATION else "another program"
        raise HotplugError(
            f"{path} is no spool of this version", why=f"it belongs to {whose}",
            hint="name a file that is not there as the spool", exit=Exit.USAGE,
        )


def _transaction(database: sqlite3.Connection, work: Callable[[sqlite3.Connection], T], *, durable: bool) -> T:
    database.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    database.execute("BEGIN IMMEDIATE")
    try:
        result = work(database)
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
    return result


def _insert(database: sqlite3.Connection, event: Event, sinks: Sequence[str]) -> int:
    """Bytes that the event now takes; 0 when it waits already."""
    size = len(event.document.encode()) + len(event.id) + len(event.key) + ROW * (1 + len(sinks))
    added = database.execute(
        "INSERT OR IGNORE INTO event (id, key, document, bytes) VALUES (?, ?, ?, ?)",
        (event.id, event.key, event.document, size),
    )
    if not added.rowcount:
        return 0
    database.executemany("INSERT INTO owed VALUES (?, ?)", [(sink, added.lastrowid) for sink in sinks])
    return size


def _make_room(database: sqlite3.Connection, excess: int) -> tuple[int, int]:
    """Drop the oldest events until `excess` bytes are free: (events dropped, bytes freed)."""
    freed, victims = 0, []
    if excess > 0:
        for seq, size in database.execute("SELECT seq, bytes FROM event ORDER BY seq"):
            victims.append((seq,))
            freed += size
            if freed >= excess:
                break
    database.executemany("DELETE FROM owed WHERE seq = ?", victims)
    database.executemany("DELETE FROM event WHERE seq = ?", victims)
    return len(victims), freed


def _is_damage(error: sqlite3.Error) -> bool:
    # SQLITE_CORRUPT and SQLITE_NOTADB are the plain class; full disk, locks and I/O are OperationalError
    # (Modules/_sqlite/util.c). sqlite_errorcode came with Python 3.11.
    return type(error) is sqlite3.DatabaseError


def _trouble(path: str, error: Exception) -> HotplugError:
    return HotplugError(
        f"cannot keep events in {path}", why=str(error), hint="make room there, or name another place as the spool",
        exit=Exit.FAILED,
    )

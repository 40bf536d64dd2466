"""One server for one collection: a lock that says who holds it, and that a dead process does not keep."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import weakref
from pathlib import Path

from pliant.limits import parsed_json

_FRESH = 60.0
"""So long after its last sign of life the holder on another machine counts as alive, in seconds."""

_held: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """A lock on a file, held until it is released or the process ends, however that comes about.

    The system's own lock decides on one machine. Where several share a folder over a network that passes no locks
    on, the time at which the holder has touched the file last does.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.holder = ""
        """Who has the lock, in words, if it is not this one."""
        self._handle: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        self._take()

    @property
    def held(self) -> bool:
        """Whether this lock is ours."""
        return self._handle is not None and not self.holder

    def touch(self) -> None:
        """Show that the holder is alive."""
        if self.held:
            os.utime(self.path)

    def release(self) -> None:
        """Let others have it."""
        if self._handle is not None:
            if self.held:
                os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = None
        _held.discard(self)

    def _take(self) -> None:
        assert self._handle is not None
        # Locks of Windows are on bytes, and keep others from reading these: one far behind the text.
        free = _system_lock(self._handle)
        os.lseek(self._handle, 0, os.SEEK_SET)
        said = _said(os.read(self._handle, 4096))
        age = time.time() - os.fstat(self._handle).st_mtime
        elsewhere = bool(said) and said["host"] != socket.gethostname()
        # A time that lies ahead comes from a clock that was wrong: its lock must not hold until then.
        if not free or (elsewhere and abs(age) < _FRESH):
            self.holder = (
                f"process {said['pid']} on {said['host']}, since {said['since']}"
                if said
                else "another process"
            )
            os.close(self._handle)
            self._handle = None
            return
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since})
        os.ftruncate(self._handle, 0)
        os.lseek(self._handle, 0, os.SEEK_SET)
        os.write(self._handle, text.encode())
        _held.add(self)

    def _forget(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _said(content: bytes) -> dict[str, str]:
    try:
        said = parsed_json(content)
        return {key: str(said[key]) for key in ("pid", "host", "since")}
    except (ValueError, KeyError, TypeError):
        return {}


if sys.platform == "win32":
    import msvcrt

    def _system_lock(handle: int) -> bool:
        os.lseek(handle, 2**20, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import errno
    import fcntl

    def _system_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # A file system without locks: what the file says must do.
            return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
        return True

    def _forget_all() -> None:
        for lock in list(_held):
            lock._forget()
        _held.clear()

    # A child that outlives us would keep the lock.
    os.register_at_fork(after_in_child=_forget_all)


def lock_in(folder: Path, source: Path) -> tuple[Lock | None, str]:
    """The lock of a collection whose history is in a folder; or a sentence that says why it is not ours."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = Lock(folder / "lock")
    except OSError as error:
        return None, f"{source}: nothing can be written here ({error.strerror}), so it is opened read-only."
    if lock.held:
        return lock, ""
    return None, f"{source}: it is open in {lock.holder}. Until it is closed there, you can only view it."

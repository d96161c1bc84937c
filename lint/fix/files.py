"""Replaces a file so that whoever looks, at whatever moment, sees the whole old or the whole new text."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from ptxguard.errors import ToolError

# `ptxguard` never reads files of this ending (`lint/source/tree.py`): a killed run may leave one behind.
_ENDING = ".tmp"


def replace_file(path: str, old: bytes, new: bytes) -> None:
    """Write new bytes in the place of the old ones; a link stays a link, mode and owner stay.

    Raises:
        ToolError: the file is no longer what was read, or cannot be written; then it is as it was.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.read_bytes() != old:
            raise ToolError("changed while it was being checked; run again", path=path)
        if not os.access(target, os.W_OK):
            raise ToolError("is write-protected; make it writable or exclude it", path=path)
        _replace(target, new)
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"cannot be replaced ({reason}); make the file and its folder writable"
        raise ToolError(message, path=path) from error


def _replace(target: Path, new: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=_ENDING, dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(new)
            stream.flush()
            os.fsync(stream.fileno())
        shutil.copystat(target, temporary)
        os.utime(temporary)  # with the old time no build would see the change
        _keep_owner(target, temporary)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _keep_owner(target: Path, temporary: Path) -> None:
    """Owner and group, where this user may give files away."""
    wanted, now = target.stat(), temporary.stat()
    if (wanted.st_uid, wanted.st_gid) != (now.st_uid, now.st_gid):
        with contextlib.suppress(OSError):
            shutil.chown(temporary, wanted.st_uid, wanted.st_gid)
            temporary.chmod(wanted.st_mode & 0o7777)  # a new owner clears set-user-id


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power failure, where the system lets a folder be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

"""Files are replaced in one piece: links, modes, other writers, and a run that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from fixkit import LOCAL, check
from ptxguard.errors import ToolError
from ptxguard.fix.files import replace_file
from sourcekit import write

FIXED = LOCAL.replace("shared::cluster.global", "shared::cta.global")


def test_link_and_mode_stay(tmp_path):
    write(tmp_path, {"real/a.cuh": LOCAL})
    real, link = tmp_path / "real/a.cuh", tmp_path / "a.cuh"
    real.chmod(0o751)
    link.symlink_to(real)
    os.utime(real, (1, 1))
    replace_file(str(link), LOCAL.encode(), FIXED.encode())
    assert link.is_symlink()
    assert real.read_text() == FIXED
    assert real.stat().st_mode & 0o7777 == 0o751
    assert real.stat().st_mtime > 1e9  # a build has to see it
    assert os.listdir(tmp_path / "real") == ["a.cuh"]


def test_a_file_that_somebody_else_changed_stays(tmp_path):
    path = tmp_path / "a.cu"
    path.write_text("newer")
    with pytest.raises(ToolError, match="changed while it was being checked; run again"):
        replace_file(str(path), b"older", b"fixed")
    assert path.read_text() == "newer"


def test_a_failed_write_leaves_the_old_text(tmp_path, monkeypatch):
    path = tmp_path / "a.cu"
    path.write_text(LOCAL)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ToolError, match="No space left on device"):
        replace_file(str(path), LOCAL.encode(), FIXED.encode())
    assert path.read_text() == LOCAL
    assert os.listdir(tmp_path) == ["a.cu"]


def test_what_cannot_be_written_is_an_error_and_still_reported(tmp_path, monkeypatch):
    write(tmp_path, {"a.cu": LOCAL, "b.cu": LOCAL})
    from ptxguard.fix import repair

    def refuse(path: str, old: bytes, new: bytes) -> None:
        if path == "a.cu":
            raise ToolError("is write-protected", path=path)
        replace_file(path, old, new)

    monkeypatch.setattr(repair, "replace_file", refuse)
    ran = check(tmp_path, "--fix")
    assert ran.status == 2
    assert "a.cu: is write-protected" in ran.err
    assert "1 error among 2 bulk copies" in " ".join(ran.out.split())
    assert (tmp_path / "b.cu").read_text() == FIXED


# The command on a disk that takes its time, so that the kill falls between two files on a busy machine too.
SLOW_DISK = """
import os, time
from ptxguard.cli import main
sync = os.fsync
os.fsync = lambda handle: (time.sleep(0.01), sync(handle))
main()
"""


def test_a_killed_run_leaves_every_file_old_or_new(tmp_path):
    names = [f"k{number:03}.cu" for number in range(200)]
    write(tmp_path, dict.fromkeys(names, LOCAL))
    command = [sys.executable, "-c", SLOW_DISK, "check", ".", "--fix-only"]
    started = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    # Killed while it writes: behind the tenth file, which is the first proof that it has begun.
    while (tmp_path / names[9]).read_text() == LOCAL and time.monotonic() < deadline:
        time.sleep(0.001)
    started.send_signal(signal.SIGKILL)
    started.wait()
    texts = [(tmp_path / name).read_text() for name in names]
    assert set(texts) <= {LOCAL, FIXED}
    assert 10 <= texts.count(FIXED) < 200
    rest = check(tmp_path, "--fix-only")  # what the killed run left behind is no source text
    assert f"fixed {texts.count(LOCAL)} copies in {texts.count(LOCAL)} files" in rest.err
    assert {(tmp_path / name).read_text() for name in names} == {FIXED}

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from doxtr_rag.core.errors import StoreLockedError
from doxtr_rag.storage import StoreLock, is_held_by, lock_holder

OWNER = """
import sys
from pathlib import Path
from doxtr_rag.storage import StoreLock
with StoreLock(Path(sys.argv[1])).acquired(5, print):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def owner(folder):
    """Another process that holds the lock until a line is written to it."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_lock_names_its_holder_and_forgets_it(folder):
    assert lock_holder(folder) is None
    with StoreLock(folder).acquired(0, pytest.fail):
        assert f"process {os.getpid()} on " in str(lock_holder(folder))
    assert lock_holder(folder) is None
    assert (folder / "lock").read_bytes() == b""


def test_a_second_process_is_told_once_whom_it_waits_for(folder, owner):
    told = []

    def on_wait(who):
        told.append(who)
        owner.stdin.write("\n")
        owner.stdin.flush()

    with StoreLock(folder).acquired(30, on_wait):
        assert f"process {os.getpid()}" in str(lock_holder(folder))
    assert len(told) == 1
    assert told[0].startswith(f"process {owner.pid} on ")
    assert told[0].endswith(", for at most 30 s")


def test_waiting_ends_with_the_holders_pid(folder, owner):
    told = []
    with pytest.raises(StoreLockedError, match=f"process {owner.pid} .*run again"):
        StoreLock(folder).acquire(0.3, told.append)
    assert len(told) == 1


def test_not_waiting_tells_nobody(folder, owner):
    with pytest.raises(StoreLockedError, match=str(owner.pid)):
        StoreLock(folder).acquire(0, pytest.fail)


def test_a_killed_holder_is_no_obstacle(folder, owner):
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert json.loads((folder / "lock").read_text())["pid"] == owner.pid
    assert lock_holder(folder) is None
    with StoreLock(folder).acquired(0, pytest.fail):
        assert str(os.getpid()) in str(lock_holder(folder))


def test_a_stale_file_with_our_own_pid_is_no_obstacle(folder):
    folder.mkdir()
    (folder / "lock").write_text(json.dumps({"pid": os.getpid(), "host": "h", "started": "s"}))
    with StoreLock(folder).acquired(0, pytest.fail):
        assert lock_holder(folder)


def test_taking_it_twice_in_one_process_is_refused_at_once(folder):
    lock = StoreLock(folder)
    with lock.acquired(0, pytest.fail):
        for second in (lock, StoreLock(folder)):
            with pytest.raises(StoreLockedError, match="this process holds it already"):
                second.acquire(60, pytest.fail)
    lock.release()
    with lock.acquired(0, pytest.fail):
        assert lock_holder(folder)


def test_only_who_has_the_lock_open_is_taken_for_its_holder(folder, owner):
    holder = lock_holder(folder)
    assert is_held_by(folder, "lock", holder)
    for other in (
        replace(holder, pid=os.getpid()),
        replace(holder, pid=0),
        replace(holder, host="elsewhere"),
    ):
        assert not is_held_by(folder, "lock", other)


def test_a_lock_knows_when_its_file_was_replaced(folder):
    with StoreLock(folder).acquired(0, pytest.fail) as lock:
        status = (folder / "lock").stat()
        assert lock.identity() == f"{status.st_dev}:{status.st_ino}"
        assert lock.is_in_place()
        (folder / "lock").rename(folder / "moved")
        assert not lock.is_in_place()
        (folder / "lock").touch()
        assert not lock.is_in_place()
    with pytest.raises(StoreLockedError, match="not held"):
        lock.identity()


def test_something_else_in_the_place_of_a_lock_holds_up_nobody(folder):
    folder.mkdir(parents=True, exist_ok=True)
    os.mkfifo(folder / "lock")
    assert lock_holder(folder) is None

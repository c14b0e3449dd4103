"""Whether the process that holds something has ended: only where its number means the same process."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from graphrag.leases import is_local_process_dead, new_owner

PROBE = "import sys; from graphrag.leases import *; print(is_local_process_dead(sys.argv[1], new_owner()))"
NAME = "from graphrag.leases import new_owner; print(new_owner())"


def python(*arguments: str, before: tuple[str, ...] = ()) -> str:
    done = subprocess.run([*before, sys.executable, "-c", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_a_process_that_ended_here_is_known_to_have_and_one_that_runs_is_not() -> None:
    assert is_local_process_dead(python(NAME), new_owner())
    assert python(PROBE, new_owner()) == "False"


@pytest.mark.slow
def test_a_process_of_another_pid_namespace_is_never_called_dead() -> None:
    apart = ("unshare", "--pid", "--fork")
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("this machine makes no PID namespaces")
    assert python(PROBE, new_owner(), before=apart) == "False"
    assert not is_local_process_dead(python(NAME, before=apart), new_owner())

"""The `nodius` program as a shell runs it: exit codes, closed pipes, interruption."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.cli.conftest import invoke, printed

FLOW = '{"nodes": [{"name": "A", "type": "n8n-nodes-base.noOp", "parameters": {}}], "connections": {}}'
ROOT = Path(__file__).parents[2]
NODIUS = Path(sys.executable).with_name("nodius")


def nodius(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [NODIUS, *arguments], env=os.environ | environment, capture_output=True, text=True, timeout=60
    )


@pytest.mark.slow
def test_data_and_remarks_do_not_mix_and_any_terminal_prints_names(tmp_path: Path) -> None:
    flow = tmp_path / "flow.json"
    flow.write_text(FLOW.replace('"A"', '"注文 ✓"'))
    url = f"sqlite:{tmp_path / 'names.db'}"
    assert invoke("import", flow, "--graph", "flow", "--db", url).exit_code == 0
    done = nodius("context", "flow", "注文", "--db", url, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "注文 ✓" in done.stdout
    assert "tokens" in done.stderr
    assert "tokens" not in done.stdout


@pytest.mark.slow
def test_no_command_loads_the_client_library_of_a_model_to_start() -> None:
    code = "import sys, cli.main; print({'openai', 'anthropic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "set()", done.stderr


@pytest.mark.slow
def test_a_failed_command_ends_with_its_code_and_no_trace(demo_db: str) -> None:
    done = nodius("export", "absent")
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", [["export", "order-refund"], ["context", "order-refund", "refund"]])
def test_a_reader_that_leaves_early_is_no_fault(demo_db: str, command: list[str]) -> None:
    with subprocess.Popen([NODIUS, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.close()
        errors = (running.stderr.read() if running.stderr else b"").decode()
        running.wait(timeout=60)
    assert "Traceback" not in errors, command
    assert "BrokenPipe" not in errors, command


@contextmanager
def _opened_by(running: subprocess.Popen[str], pipe: Path) -> Generator[None]:
    """Hold the pipe open for writing from when the program reads it; fail if it ends before."""
    while True:
        assert running.poll() is None, running.stderr
        try:
            writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as exc:
            if exc.errno != errno.ENXIO:  # ENXIO: nobody reads it yet
                raise
            time.sleep(0.02)
            continue
        try:
            yield
        finally:
            os.close(writer)
        return


@pytest.mark.slow
def test_interruption_is_said_and_what_was_done_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "never.json"
    os.mkfifo(pipe)
    good = tmp_path / "good.json"
    good.write_text(FLOW)
    url = f"sqlite:{tmp_path / 'stopped.db'}"
    with subprocess.Popen(
        [NODIUS, "import", "--db", url, str(good), str(pipe)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background job ignores interruptions, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as running:
        with _opened_by(running, pipe):  # once the program reads it the first file is stored
            running.send_signal(signal.SIGINT)
            # It cannot end while it reads the pipe; an end of file that came first would be a refusal.
            with suppress(subprocess.TimeoutExpired):
                running.wait(timeout=5)
        _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "stopped" in errors
    assert "Traceback" not in errors
    assert [row["nodes"] for row in printed(invoke("graphs", "--json", "--db", url))] == [1]

"""The `nodius` program as a shell runs it: exit codes, closed pipes, interruption."""

import errno
import os
import re
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

from cli.serve import open_page
from tests.cli.conftest import Env, invoke, printed

FLOW = (
    '{"nodes": [{"name": "A", "type": "n8n-nodes-base.noOp", "parameters": {}}], "connections": {}}'
)
ROOT = Path(__file__).parents[2]
NODIUS = Path(sys.executable).with_name("nodius")


def nodius(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [NODIUS, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.slow
def test_data_and_remarks_do_not_mix_and_any_terminal_prints_names(tmp_path: Path) -> None:
    flow = tmp_path / "flow.json"
    flow.write_text(FLOW.replace('"A"', '"注文 ✓"'))
    url = f"sqlite:{tmp_path / 'names.db'}"
    invoke("import", flow, "--graph", "flow", "--db", url, exits=0)
    done = nodius("context", "flow", "注文", "--db", url, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "注文 ✓" in done.stdout
    assert "tokens" in done.stderr
    assert "tokens" not in done.stdout


@pytest.mark.slow
def test_a_failed_command_ends_with_its_code_and_no_trace(demo_db: str) -> None:
    done = nodius("export", "absent")
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["export", "order-refund"], ["context", "order-refund", "refund"]]
)
def test_a_reader_that_leaves_early_is_no_fault(demo_db: str, command: list[str]) -> None:
    with subprocess.Popen(
        [NODIUS, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
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
            # It cannot end while it reads the pipe; an end of file that came first would
            # be a refusal.
            with suppress(subprocess.TimeoutExpired):
                running.wait(timeout=5)
        _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "stopped" in errors
    assert "Traceback" not in errors
    assert [row["nodes"] for row in printed(invoke("graphs", "--json", "--db", url))] == [1]


ROOT_TEXT = str(Path(__file__).parents[2])


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "127.0.0.1.example"])
def test_beyond_this_computer_somebody_must_sign_in(host: str) -> None:
    assert (
        "NODIUS_AUTH_SECRET" in invoke("serve", "--db", "memory:", "--host", host, exits=2).stderr
    )


def test_a_port_that_is_taken_is_said_with_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = invoke("serve", "--db", "memory:", "--port", taken.getsockname()[1])
    assert result.exit_code == 1
    assert "--port" in result.stderr


def test_a_model_without_its_key_is_said_at_the_start() -> None:
    result = invoke("serve", "--db", "memory:", "--port", 0, "--provider", "openai", exits=2)
    assert "openai_api_key" in result.stderr


def test_a_key_of_sign_in_that_is_none_is_said_at_the_start(env: Env) -> None:
    env(NODIUS_AUTH_PUBLIC_KEY="nowhere.pem")
    assert "auth_public_key" in invoke("serve", "--db", "memory:", "--port", 0, exits=2).stderr


@contextmanager
def serving(*arguments: str) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """Run a command that serves; yield the page's address and the process."""
    with subprocess.Popen(
        [sys.executable, "-c", "from cli.main import run; run()", *arguments, "--port", "0"],
        env={**os.environ, "PYTHONPATH": ROOT_TEXT, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield (
                next(
                    found[0]
                    for line in process.stdout
                    if (found := re.search(r"http://127\S+/", line))
                ),
                process,
            )
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal(sign: signal.Signals) -> None:
    with serving("serve", "--db", "memory:") as (address, process):
        assert httpx2.get(f"{address}readyz", timeout=60).json() == {"status": "ok"}
        process.send_signal(sign)
        assert process.wait(timeout=60) == 0


@pytest.mark.slow
def test_the_demo_serves_the_page_where_it_is_asked_to() -> None:
    with serving("demo", "--serve", "--no-browser") as (address, process):
        page = httpx2.get(address, timeout=60)
        assert page.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        graphs = httpx2.get(f"{address}api/graphs", timeout=60).json()["graphs"]
        assert len(graphs) == 3
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0


def test_no_browser_is_looked_for_where_there_is_no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("BROWSER", "/bin/false")
    assert not open_page("http://127.0.0.1:1/")


def test_the_page_opens_in_the_browser_of_this_person(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = folder / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {folder}/opened\n')
    browser.chmod(0o755)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("BROWSER", str(browser))
    monkeypatch.setattr(webbrowser, "_browsers", {})  # which it looks for once a process
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    assert open_page("http://127.0.0.1:1/")
    assert (folder / "opened").read_text() == "http://127.0.0.1:1/\n"

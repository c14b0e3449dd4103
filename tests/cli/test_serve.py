"""The `serve` command: where it listens, where it refuses to, and that it ends well."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import webbrowser
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from cli.serve import open_page
from tests.cli.conftest import invoke
from tests.support.each_row import each_row

ROOT = str(Path(__file__).parents[2])


@each_row("host", ["0.0.0.0", "::", "192.0.2.1", "127.0.0.1.example"])
def test_beyond_this_computer_somebody_must_sign_in(host: str) -> None:
    result = invoke("serve", "--db", "memory:", "--host", host)
    assert result.exit_code == 2
    assert "NODIUS_AUTH_SECRET" in result.stderr


def test_a_port_that_is_taken_is_said_with_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = invoke("serve", "--db", "memory:", "--port", taken.getsockname()[1])
    assert result.exit_code == 1
    assert "--port" in result.stderr


def test_a_model_without_its_key_is_said_at_the_start() -> None:
    result = invoke("serve", "--db", "memory:", "--port", 0, "--provider", "openai")
    assert result.exit_code == 2
    assert "openai_api_key" in result.stderr


def test_a_key_of_sign_in_that_is_none_is_said_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODIUS_AUTH_PUBLIC_KEY", "nowhere.pem")
    result = invoke("serve", "--db", "memory:", "--port", 0)
    assert result.exit_code == 2
    assert "auth_public_key" in result.stderr


@contextmanager
def serving(*arguments: str) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """Run a command that serves; yield the page's address and the process."""
    with subprocess.Popen(
        [sys.executable, "-c", "from cli.main import run; run()", *arguments, "--port", "0"],
        env={**os.environ, "PYTHONPATH": ROOT, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield (
                next(found[0] for line in process.stdout if (found := re.search(r"http://127\S+/", line))),
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


def test_the_page_opens_in_the_browser_of_this_person(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = folder / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {folder}/opened\n')
    browser.chmod(0o755)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("BROWSER", str(browser))
    monkeypatch.setattr(webbrowser, "_browsers", {})  # which it looks for once a process
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    assert open_page("http://127.0.0.1:1/")
    assert (folder / "opened").read_text() == "http://127.0.0.1:1/\n"

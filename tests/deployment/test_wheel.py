"""The wheel, installed where there is no project around: it holds all it needs to answer
and to serve.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import httpx2
import pytest

from tests.deployment.containers import ROOT
from tests.deployment.wheels import PACKAGE, ROOMS, installed

pytestmark = pytest.mark.slow
CONTENT_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def _files() -> set[str]:
    """Return the names that the wheel must hold."""
    found = (
        file for room in (*ROOMS, PACKAGE) for file in (ROOT / room).rglob("*") if file.is_file()
    )
    names = [file.relative_to(ROOT).as_posix() for file in found if "__pycache__" not in file.parts]
    return {name if name.startswith(f"{PACKAGE}/") else f"{PACKAGE}/{name}" for name in names}


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel of another distribution, whose packages have the names of two of our rooms."""
    source = tmp_path_factory.mktemp("other")
    made = tmp_path_factory.mktemp("other-wheel")
    for room in ("graphrag", "tools"):
        (source / room).mkdir()
        (source / room / "__init__.py").write_text("OWNER = 'another project'\n", encoding="utf-8")
    project = """
        [build-system]
        requires = ["hatchling"]
        build-backend = "hatchling.build"
        [project]
        name = "another-graphrag"
        version = "1"
        [tool.hatch.build.targets.wheel]
        packages = ["graphrag", "tools"]
    """
    (source / "pyproject.toml").write_text(textwrap.dedent(project), encoding="utf-8")
    build = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(made),
    ]
    subprocess.run(build, cwd=source, check=True, capture_output=True, timeout=120)
    (file,) = made.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def nodius(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("installed"), wheel) / "nodius"


def _environment(home: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONUNBUFFERED": "1"}


def test_it_holds_every_file_of_the_rooms(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        held = {name for name in opened.namelist() if ".dist-info/" not in name}
    assert held == _files()


@pytest.mark.parametrize("is_first", [True, False])
def test_another_distribution_with_packages_of_the_same_names_works_beside_it(
    wheel: Path, other: Path, tmp_path: Path, is_first: bool
) -> None:
    programs = installed(tmp_path / "both", *((other, wheel) if is_first else (wheel, other)))
    environment = _environment(tmp_path)

    def said(*command: str | Path) -> str:
        return subprocess.check_output(
            command, cwd=tmp_path, env=environment, text=True, timeout=60
        )

    assert said(
        programs / "python", "-c", "import graphrag, tools; print(graphrag.OWNER, tools.OWNER)"
    ) == ("another project another project\n")
    starts = (
        [programs / "nodius"],
        [programs / "nodius-graphrag"],
        [programs / "python", "-m", PACKAGE],
    )
    for start in starts:
        assert "testgraph001" in said(*start, "graphs", "--db", "memory:")
    late = "import graphrag, nodius_graphrag; nodius_graphrag.activate()"
    refused = subprocess.run(
        [programs / "python", "-c", late],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "another 'graphrag' is imported already" in refused.stderr


def test_it_runs_its_own_code(nodius: Path, tmp_path: Path) -> None:
    where = (
        "import nodius_graphrag; nodius_graphrag.activate(); import cli, graphrag, server;"
        "print(cli.__file__, graphrag.__file__, server.__file__)"
    )
    said = subprocess.check_output(
        [nodius.with_name("python"), "-c", where],
        cwd=tmp_path,
        env=_environment(tmp_path),
        text=True,
    )
    assert all(str(nodius.parents[1]) in place for place in said.split())


def test_it_imports_asks_changes_and_serves_every_file_of_the_page(
    nodius: Path, tmp_path: Path
) -> None:
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
        [nodius, "serve", "--port", "0"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
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
    for file in (path for path in web.rglob("*.*") if path.suffix in CONTENT_TYPES):
        path = file.relative_to(web).as_posix()
        answer = client.get("" if path == "index.html" else f"web/{path}")
        assert answer.status_code == 200, path
        assert answer.headers["content-type"].split(";")[0] == CONTENT_TYPES[file.suffix], path
        if path != "index.html":
            assert answer.content == file.read_bytes(), path

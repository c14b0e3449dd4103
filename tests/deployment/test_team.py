"""A team on one SQLite file: what Compose runs, and the first start of the image."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.deployment.containers import SQLITE, image_environment, instructions


def test_the_services_of_the_team_find_their_volumes_and_each_other() -> None:
    services = SQLITE.services
    for name, service in services.items():
        volumes = {volume.partition(":")[0] for volume in service.get("volumes", [])}
        assert volumes <= set(SQLITE.content["volumes"]), name
        assert set(service.get("depends_on", {})) <= set(services)
        assert name == "proxy" or "ports" not in service, "only the proxy is reached from outside"
    assert services["proxy"]["command"][-1] == f"nodius:{instructions('EXPOSE')[0][0]}"
    assert services["backup"]["image"] == services["nodius"]["image"]
    workdir = instructions("WORKDIR")[-1][0]
    for name in ("nodius", "backup"):
        assert f"data:{workdir}" in services[name]["volumes"]


@pytest.mark.slow
def test_the_first_start_of_the_image_prints_how_to_sign_in_and_the_second_keeps_the_secret(
    tmp_path: Path,
) -> None:
    command = json.loads(" ".join(instructions("CMD")[-1]))
    # A terminal of 80 columns must not divide the link that is copied from it.
    environment = {**os.environ, **image_environment(), "NODIUS_PORT": "0", "COLUMNS": "80"}
    said = [_started(tmp_path, command, environment) for _ in range(2)]
    token = re.search(r"#invite=(\S+)", said[0][1])
    assert token is not None
    assert "#invite=" not in said[1][1]
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    assert said[0][0] == said[1][0] == (401, 200)


def _started(
    folder: Path, command: list[str], environment: dict[str, str]
) -> tuple[tuple[int, int], str]:
    """Returns the answers to nobody and to the admin, and what was printed."""
    nodius = [str(Path(sys.executable).with_name("nodius")), *command]
    with subprocess.Popen(
        nodius,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            answers, printed = _answers(process, folder / "token")
        finally:
            process.terminate()
        assert process.stdout is not None
        return answers, printed + process.stdout.read()


def _answers(process: subprocess.Popen[str], kept: Path) -> tuple[tuple[int, int], str]:
    """Signs in with the token of the printed link, which later starts find in the file `kept`."""
    assert process.stdout is not None
    lines: list[str] = []
    while not (address := re.search(r"serves its page at (\S+)", "".join(lines))):
        lines.append(process.stdout.readline())
        assert lines[-1], lines
    if not kept.exists():
        while not (found := re.search(r"#invite=(\S+)", "".join(lines))):
            lines.append(process.stdout.readline())
            assert lines[-1], lines
        kept.write_text(found[1], encoding="utf-8")
    with httpx2.Client(base_url=address[1], trust_env=False, timeout=60) as client:
        bearer = {"Authorization": f"Bearer {kept.read_text(encoding='utf-8')}"}
        nobody, admin = client.get("api/me"), client.get("api/me", headers=bearer)
    assert admin.status_code == 200, (admin.text, lines)
    return (nobody.status_code, admin.status_code), "".join(lines)

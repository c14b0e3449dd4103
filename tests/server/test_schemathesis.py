"""The OpenAPI description is true: `schemathesis` makes requests from it and checks the
answers by it.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import requests

from graphrag.live.edits import rename_sheet
from tests.support.served import Served, served
from tests.support.service import AUTOMATION, GRAPH, token, with_an_agent

CHANGE = 'rename error-handler to "Report error"'
UNCHECKED = "positive_data_acceptance"
"""A request of the right form may still be refused: a file that is no workflow, a
workspace not theirs.
"""

AWAY = "POST /api/connections"
"""A server that does not answer is told as 502; `test_rest_connections` has ones that do."""

STAYS = "use_after_free"
"""A call that is forgotten stays with its sums; that what was deleted is
gone is shown elsewhere.
"""


@asynccontextmanager
async def with_content() -> AsyncIterator[tuple[Served, dict[str, str]]]:
    """A service with one of everything, and the keys of these."""
    headers = {"Authorization": f"Bearer {token('al', 'admin')}"}
    async with served(rate_limit=0, automations_at_once=0) as running:
        body = {"graphKey": GRAPH, "message": CHANGE}
        answer = await asyncio.to_thread(
            requests.post, f"{running.address}/api/ai/chat", json=body, headers=headers, timeout=20
        )
        waits = answer.json()
        automation = await asyncio.to_thread(
            requests.post,
            f"{running.address}/api/automations",
            json=AUTOMATION,
            headers=headers,
            timeout=20,
        )
        key = automation.json()["id"]
        run = await asyncio.to_thread(
            requests.post,
            f"{running.address}/api/automations/{key}/run",
            headers=headers,
            timeout=20,
        )
        url = "https://api.example.com/nba/v1/players/stats"
        codemod = await asyncio.to_thread(
            requests.post,
            f"{running.address}/api/codemods",
            json={"old": url, "new": f"{url}/2"},
            headers=headers,
            timeout=20,
        )
        changes = {"codemod_id": codemod.json()["codemodId"]}
        live = await running.state.backend.live.open("default", GRAPH)
        edit = await live.edit("al", None, rename_sheet, "0", "first")
        yield (
            running,
            {
                "graph_key": GRAPH,
                "node_key": "fetch-api",
                "thread_id": waits["threadId"],
                "approval_id": waits["approvals"][0]["id"],
                "edit_id": str(edit.timestamp),
                "automation_id": key,
                "session_id": run.json()["sessionId"],
                "workspace": "default",
                **await with_an_agent(running.state),
                **changes,
            },
        )


CONFIGURED = """
[output.sanitization]
enabled = false
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]
{parameters}
"""
"""Of a refusal also that the body is too large, which is said before it is read."""


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, True])
async def test_a_long_search_finds_no_undocumented_answer_and_no_failure(
    known: bool, tmp_path: Path
) -> None:
    async with with_content() as (running, keys):
        given = (
            "\n".join(f'"path.{name}" = "{value}"' for name, value in keys.items()) if known else ""
        )
        config = tmp_path / "schemathesis.toml"
        config.write_text(CONFIGURED.format(parameters=f"[parameters]\n{given}" if given else ""))
        command = [
            *(str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(config)),
            *("run", f"{running.address}/openapi.json"),
            *("-H", f"Authorization: Bearer {token('al', 'admin')}"),
            *("--checks", "all", "--exclude-checks", f"{UNCHECKED},{STAYS}"),
            *("--exclude-name", AWAY),
            *("--max-examples", "25", "--seed", "1", "--no-color", "--generation-database", "none"),
        ]
        process = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    assert "Server error" not in said.decode()

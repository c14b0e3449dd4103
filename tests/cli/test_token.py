"""Tokens that the command line makes are those that the service takes."""

import time
from pathlib import Path

import pytest

from graphrag.agent.events import ToolFinished
from graphrag.app import wiring
from server.auth import Authenticator
from tests.cli.conftest import invoke, printed
from tests.support.agents import GRAPH, only, scripted
from tests.support.scripted_provider import Says, call
from tests.support.service import SECRET, settings_of
from tools.base import ToolArguments, ToolContext, ToolResult, read_tool
from tools.read_tools import READ_TOOLS


async def test_a_token_signs_its_person_in_where_its_secret_issuer_and_audience_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"SECRET": SECRET, "ISSUER": "https://me", "AUDIENCE": "nodius"}.items():
        monkeypatch.setenv(f"NODIUS_AUTH_{name}", value)
    monkeypatch.setenv("COLUMNS", "40")
    made = invoke("token", "--user", "ann", "--role", "admin", "--workspace", "w", "--days", "0.5")
    (token,) = made.stdout.splitlines()
    settings = settings_of(auth_issuer="https://me", auth_audience="nodius")
    who = await Authenticator(settings).authenticate(token)
    assert (who.user_id, who.role, who.workspaces) == ("ann", "admin", ("w",))
    assert abs((who.expires or 0) - time.time() - 43_200) < 60
    facts = printed(invoke("token", "--json"))
    assert (facts["user"], facts["role"], facts["workspaces"]) == ("local", "editor", ["default"])
    assert SECRET not in made.output + str(facts)


@pytest.mark.parametrize(
    ("variable", "arguments", "said"),
    [
        ("", (), "openssl rand"),
        ("NODIUS_AUTH_JWKS", (), "ask your identity provider"),
        ("NODIUS_AUTH_SECRET", ("--role", "boss"), "'viewer', 'editor', 'reviewer', 'admin'"),
        ("NODIUS_AUTH_SECRET", ("--days", "366"), "at most 365 days"),
        ("NODIUS_AUTH_SECRET", ("--days", "nan"), "at most 365 days"),
        ("NODIUS_AUTH_SECRET", ("--user", "caller:1"), "printable characters"),
        ("NODIUS_AUTH_SECRET", ("--user", ""), "printable characters"),
    ],
)
def test_what_makes_no_token_says_what_to_do(
    variable: str, arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable:
        monkeypatch.setenv(variable, SECRET)
    result = invoke("token", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in " ".join(result.stderr.split())


def test_a_key_of_a_program_is_made_listed_and_revoked(db: Path) -> None:
    assert "no key" in invoke("token", "--list").output
    made = printed(invoke("token", "--api-key", "--name", "bot", "--channel", "mcp", "--json"))
    assert made["key"].startswith(f"nodius_{made['id']}_")
    shown = invoke("token", "--list").output
    assert made["id"] in shown
    assert made["key"] not in shown
    assert "is revoked" in invoke("token", "--revoke", made["id"]).output
    assert "revoked" in invoke("token", "--list").output
    invoke("token", "--revoke", "key_none", exits=3)


def test_what_does_not_go_together_is_refused(db: Path) -> None:
    assert "give one of --api-key" in invoke("token", "--api-key", "--list", exits=2).stderr
    assert "are for --api-key" in invoke("token", "--name", "x", exits=2).stderr
    assert (
        "no channel 'fax'; there are"
        in invoke("token", "--api-key", "--channel", "fax", exits=2).stderr
    )


# The file of the tool:
class CountNodes(ToolArguments):
    type_key: str


@read_tool("How many of a type.", {"typeKey": "filter"})
async def count_nodes(arguments: CountNodes, context: ToolContext) -> ToolResult:
    count = (await context.source.get_stats(context.graph_key)).types.get(arguments.type_key, 0)
    return ToolResult(text=f"{count} nodes", data={"count": count})


# Its entry:
WITH_IT = (*READ_TOOLS, count_nodes)


def test_the_command_lists_and_runs_it(demo_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring, "READ_TOOLS", WITH_IT)
    assert "count_nodes" in {tool["name"] for tool in printed(invoke("tools", GRAPH, "--json"))}
    (result,) = printed(
        invoke("tools", GRAPH, "count_nodes", "--args", '{"typeKey": "log-node"}', "--json")
    )
    assert (result["data"], result["error"]) == ({"count": 2}, False)


async def test_a_model_calls_it() -> None:
    asks = Says(calls=[call("count_nodes", {"typeKey": "log-node"})])
    async with scripted(asks, "There are 2.", tools=WITH_IT) as (setting, _):
        finished = only(await setting.ask("How many log nodes?"), ToolFinished)
    assert "2 nodes" in str(finished)

"""`nodius agents-seen`: listing, ruling, blocking, undoing programs; and what is refused."""

from __future__ import annotations

from pathlib import Path

from cli.common import EXIT_USAGE
from graphrag.roles import ClientInfo
from tests.cli.conftest import invoke, name_of, printed, propose

BOT = ClientInfo(channel="mcp", name="bot", version="2")


def test_a_program_is_listed_ruled_blocked_and_undone(db: Path) -> None:
    assert "no program" in invoke("agents-seen").output
    before = name_of("fetch-api")
    made = propose(db, "update_node", nodeKey="fetch-api", changes={"data.name": "Theirs"}, client=BOT)
    invoke("review", "approve", made)
    assert name_of("fetch-api") == "Theirs"
    (seen,) = printed(invoke("agents-seen", "--json"))
    assert (seen["id"], seen["proposed"], seen["rule"]) == ("mcp/bot", 1, None)
    rule = ("--classes", "layout,content", "--daily", "5", "--deciders", "reviewer")
    ruled = " ".join(invoke("agents-seen", "mcp", *rule).output.split())
    assert "only content, layout; 0 of 5 today; reviewer" in ruled
    assert "blocked" in invoke("agents-seen", "mcp/bot", "--block").output
    assert "blocked" not in invoke("agents-seen", "mcp/bot", "--clear").output
    assert printed(invoke("agents-seen", "mcp/bot", "--undo", "--json")) == {"undone": [made], "refused": []}
    assert name_of("fetch-api") == before
    assert "0 changes undone" in invoke("agents-seen", "mcp/bot", "--undo").output


def test_what_does_not_go_together_or_names_no_program_is_refused(db: Path) -> None:
    for wrong in (["--block"], ["mcp", "--block", "--undo"], ["mcp", "--classes", "all"]):
        refused = invoke("agents-seen", *wrong)
        assert refused.exit_code == EXIT_USAGE, refused.output
    unknown = invoke("agents-seen", "page", "--block")
    assert unknown.exit_code != 0
    assert "names no program" in unknown.output

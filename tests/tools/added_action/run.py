"""Proposes, reviews, applies and undoes the added action; run in a copy of the program."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from datasources.mock import open_nba
from graphrag.approvals import Approve, outcome_text, title
from graphrag.approvals.wording import review_words
from tests.graphrag.approvals.helpers import EDITOR, FLOW, Bench, a_bench
from tools.base import ToolContext
from tools.tool_box import ToolBox
from tools.write_tools import WRITE_TOOLS


async def main() -> None:
    source = open_nba().source("test")
    nba = ToolContext(source=source, graph_key="testgraph001", role="editor")
    box = ToolBox(WRITE_TOOLS)
    offered = {tool.name: tool for tool in WRITE_TOOLS}["propose_disable_node"]
    proposed = await box.run(offered.name, dict(offered.example), nba)
    refused = await box.run(offered.name, {"nodeKey": "nothing"}, nba)

    bench = await a_bench()
    before = await bench.state()
    approval = await bench.propose("disable_node", nodeKey="b")
    review = review_words(approval, "en")
    stale = await bench.propose("disable_node", nodeKey="c")
    applied = await bench.approvals().decide(approval.id, Approve(), EDITOR)
    disabled = (await _data(bench, "b"))["disabled"]
    undo = await bench.approvals().undo(FLOW, approval.id, by=EDITOR)
    print(
        json.dumps(
            {
                "proposed": proposed.text,
                "refused": refused.text,
                "batch": [one["text"] for one in review["parts"]],
                "asked": review["asked"],
                "titles": [title(approval, "en"), title(approval, "fr")],
                "waits": stale.status,
                "status": applied.status,
                "disabled": disabled,
                "undo": outcome_text(undo, "en", to_person=True),
                "restored": await bench.state() == before,
            }
        )
    )


async def _data(bench: Bench, key: str) -> Any:
    (node,) = await bench.source.get_nodes_by_key(FLOW, [key])
    return node.data


asyncio.run(main())

"""Imports the published workflows, asks the rules about them through the agent, and
marks the answers.

`python -m tests.graphrag.rules.marked` prints sixty first questions as a table
(`--answers`: with answers).
"""

import asyncio
import json
import re
import sys
import tomllib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasources.mock import open_nba
from datasources.text import node_label
from datasources.types import Mutation
from graphrag.agent.events import Completed, ProposalPending
from graphrag.importers import import_workflow
from graphrag.rules import RulesProvider
from graphrag.rules.patterns import grammar
from tests.support.agents import EDITOR, Setting, collected, setting_on
from tests.support.data_files import published

FILES = {file.stem: file for file in published("workflows", "*.json")}
QUESTIONS = tomllib.loads(Path(__file__).with_name("first_questions.toml").read_text("utf-8"))[
    "question"
]
REFUSALS = ("nothing_found", "found", "one_change_at_a_time")
"""Texts that say that a message was not understood, with or without what was
found for its words.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a turn ended in: all that was said, and what is proposed as JSON."""

    text: str
    proposals: str = ""
    failed: bool = False

    def says(self, *texts: str) -> bool:
        """Return whether the answer holds one of these texts of the language files."""
        begun = [
            _begun(grammar(each).texts.get(name, "\0")) for each in ("en", "fr") for name in texts
        ]
        return any(text and text in self.text for text in begun)


def _begun(text: str) -> str:
    return max(re.split(r"\{\w+\}", text), key=len)


@asynccontextmanager
async def asking() -> AsyncGenerator[Setting]:
    """Yield an agent that answers by rules, on an empty database."""
    async with open_nba("default") as database:
        yield setting_on(database, RulesProvider())


async def imported(setting: Setting, name: str, raw: bytes) -> str:
    """Import a workflow and return the key of its graph."""
    key = name.replace("_", "-")
    made = import_workflow(raw, file_name=f"{name}.json", workspace="default", graph_key=key)
    for config in made.configs:
        await setting.source.put_node_config(config)
    await setting.source.create_graph(made.graph)
    await setting.source.apply(Mutation(graph_key=key, put_nodes=made.nodes, put_edges=made.edges))
    return key


async def asked(setting: Setting, graph: str, question: str) -> Answered:
    """Ask a question in a conversation of its own."""
    *_, ending = await collected(setting.agent.run(None, graph, question, EDITOR))
    if isinstance(ending, ProposalPending):
        actions = [approval.action.model_dump(mode="json") for approval in ending.approvals]
        return Answered(text=ending.text, proposals=json.dumps(actions, ensure_ascii=False))
    if not isinstance(ending, Completed):
        return Answered(text=repr(ending), failed=True)
    return Answered(text=ending.text)


async def named(setting: Setting, graph: str, text: str) -> str:
    """Return an answer with the name of each node that it links, as a client shows it."""
    names = {node.key: node_label(node) for node in await setting.source.get_nodes(graph)}
    return re.sub(r"\{\{node:([^{}]+)\}\}", lambda link: names.get(link[1], link[1]), text)


def missed(question: dict[str, Any], answer: Answered, shown: str) -> str:
    """Return why an answer is not what was expected; empty where it is."""
    low = " ".join(shown.lower().split())
    everything = low + answer.proposals.lower()
    spelt = {name: [" ".join(text.lower().split()) for text in question.get(name, ())]
             for name in ("must", "any", "never", "whole")}  # fmt: skip
    is_refused = answer.says(*REFUSALS)
    if answer.failed or answer.says(
        "no_such_nodes", "near_nodes", "read_failed", "too_many_rounds"
    ):
        return "failed, or looked for a node that nobody named"
    if found := [text for text in spelt["never"] if text in everything]:
        return f"says {found}"
    if spelt["whole"]:
        whole = not answer.proposals or all(
            text in answer.proposals.lower() for text in spelt["whole"]
        )
        return "" if whole else "proposes one half"
    if question.get("refusal") == "required":
        return "" if is_refused else "does not say that it did not understand"
    if lacking := [text for text in spelt["must"] if text not in low]:
        return f"lacks {lacking}"
    return (
        ""
        if not spelt["any"] or any(text in low for text in spelt["any"])
        else f"none of {spelt['any']}"
    )


async def mark_all(show: bool = False) -> list[str]:
    """Ask all questions and return a line for each that was missed; prints the table
    where asked to.
    """
    failures: list[str] = []
    async with asking() as setting:
        graphs: dict[str, str] = {}
        for place, question in enumerate(QUESTIONS, 1):
            name = question["graph"]
            if name not in graphs:
                graphs[name] = await imported(setting, name, FILES[name].read_bytes())
            answer = await asked(setting, graphs[name], question["ask"])
            shown = await named(setting, graphs[name], answer.text)
            why = missed(question, answer, shown)
            line = f"{place:2} {'MISS' if why else 'ok  '} {name:14.14} {question['ask']}  {why}".rstrip()
            failures += [line] if why else []
            if show:
                print(line)
            if "--answers" in sys.argv:
                print("   | " + "\n   | ".join(f"{shown}\n{answer.proposals}".splitlines()[2:]))
    return failures


if __name__ == "__main__":
    print(f"{len(asyncio.run(mark_all(show=True)))} of {len(QUESTIONS)} missed")

"""Runs of automations without a model: each template's message, through the tools, to a report."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from datasources.types import Edge, Node
from graphrag.automations.templates import templates
from graphrag.i18n import Language
from graphrag.llm.base import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from graphrag.llm.model_text import complete
from graphrag.rules import RulesProvider
from tests.graphrag.rules.talk import made
from tools.base import ToolContext
from tools.read_tools import READ_TOOLS
from tools.session_tools import SESSION_TOOLS, refresh_embeddings
from tools.tool_box import ToolBox
from tools.toon import compact_json, encode_table
from tools.write_tools import WRITE_TOOLS

Answer = str | ToolMessage
COLUMNS = ("severity", "rule", "nodes", "what", "repair")
RENAME = {"nodeKey": "b", "changes": {"data.name": "X 2"}}
FINDINGS = encode_table(
    "findings",
    [
        dict(zip(COLUMNS, row, strict=True))
        for row in (
            (
                "error",
                "missing_end",
                "a",
                "The edge e1 ends nowhere.",
                'propose_delete_edge {"edgeKey":"e1"}',
            ),
            (
                "warning",
                "duplicate_name",
                "a b",
                "Two are named X.",
                f"propose_update_node {compact_json(RENAME)}",
            ),
            ("warning", "unreachable", "c", "No start reaches c.", None),
        )
    ],
    COLUMNS,
)
CHANGES = [
    {"time": "2026-11-12T10:00:00+01:00", "who": "ann", "what": "rename “Fetch”", "undone": "yes"},
    {"time": "2026-11-11T09:00:00+01:00", "who": "bob", "what": "moved Load", "undone": None},
]
HISTORY = "From a to b, newest first.\n" + encode_table(
    "changes", CHANGES, ["time", "who", "what", "undone"]
)
NAMES = [
    "check_graph",
    "read_history",
    "refresh_embeddings",
    "finish_automation",
    "read_graph_overview",
]
WRITES = ["propose_delete_edge", "propose_update_node"]


def schema(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {}}}


async def run(
    message: str,
    answers: Mapping[str, Sequence[Answer]],
    *,
    writes: bool = True,
    language: Language = "en",
) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    """Answer each call with the next scripted answer of its tool; return how the run ended,
    and the calls.
    """
    prompt = "Tu es l'assistant d'un éditeur." if language == "fr" else "You are the assistant."
    messages: list[Message] = [SystemMessage(content=prompt), UserMessage(content=message)]
    left = {name: list(each) for name, each in answers.items()}
    calls: list[tuple[str, dict[str, Any]]] = []
    for _ in range(20):
        offered = [schema(name) for name in (*NAMES, *(WRITES if writes else ()))]
        answer = await complete(RulesProvider(), messages, offered)
        messages.append(AssistantMessage(content=answer.text, tool_calls=answer.tool_calls))
        assert answer.tool_calls, "a run ends with finish_automation"
        for call in answer.tool_calls:
            arguments = json.loads(call.arguments)
            if call.name == "finish_automation":
                assert len(answer.tool_calls) == 1
                return arguments, calls
            calls.append((call.name, arguments))
            given = left[call.name].pop(0)
            if isinstance(given, str):
                given = ToolMessage(call_id="", name=call.name, content=given)
            messages.append(
                ToolMessage(
                    call_id=call.id, name=call.name, content=given.content, is_error=given.is_error,
                    outcome=given.outcome,
                )
            )  # fmt: skip
    raise AssertionError("the run does not end")


def became(status: str, **facts: Any) -> ToolMessage:
    return ToolMessage(
        call_id="", name="", content=f"{status}.", outcome={"status": status, **facts}
    )


@pytest.mark.parametrize("language", ["en", "fr"])
async def test_nightly_check_proposes_each_repair_by_itself_and_reports_the_rest(
    language: Language,
) -> None:
    template = templates(language)["nightly-check"]
    end, calls = await run(
        template.message,
        {
            "check_graph": [FINDINGS],
            "propose_delete_edge": [became("applied", what="delete e1")],
            "propose_update_node": [became("rejected", what="rename", feedback="no")],
        },
        language=language,
    )
    assert [name for name, _ in calls] == ["check_graph", *WRITES]
    assert calls[1][1]["edgeKey"] == "e1"
    assert calls[2][1]["reason"] == "Two are named X."
    assert end["outcome"] == "findings"
    done, refused = (
        ("approved and is done", "rejected") if language == "en" else ("approuvé", "rejeté")
    )
    lines = end["report"].splitlines()
    assert any("e1" in line and done in line for line in lines)
    assert any("named X" in line and refused in line for line in lines)
    assert any("No start reaches c" in line and "warning" in line for line in lines)


async def test_what_waits_or_was_rejected_before_is_said_in_the_report() -> None:
    end, _ = await run(
        templates("en")["nightly-check"].message,
        {
            "check_graph": [FINDINGS],
            "propose_delete_edge": [became("already_proposed", approval_id="ap_1")],
            "propose_update_node": [became("rejected_before_why", by="rita", feedback="keep it")],
        },
    )
    assert "still waits" in end["report"]
    assert "rejected before" in end["report"]


async def test_repairs_that_were_refused_do_not_keep_others_from_being_proposed() -> None:
    rows = [
        f'  error,missing_end,a,Edge e{i}.,"propose_delete_edge {{\\"edgeKey\\":\\"e{i}\\"}}"'
        for i in range(14)
    ]
    findings = "\n".join(["findings[14]{severity,rule,nodes,what,repair}:", *rows])
    old = became("rejected_before", by="rita")
    new = became("applied", what="done")
    script: dict[str, list[Answer]] = {
        "check_graph": [findings],
        "propose_delete_edge": [old] * 10 + [new] * 4,
    }
    end, calls = await run(templates("en")["nightly-check"].message, script)
    assert [arguments["edgeKey"] for name, arguments in calls[1:]] == [f"e{i}" for i in range(14)]
    script = {"check_graph": [findings], "propose_delete_edge": [new] * 10}
    end, calls = await run(templates("en")["nightly-check"].message, script)
    assert len(calls) == 11, "what is left waits for the next run: the graph is another now"
    assert "Edge e13. (error)" in end["report"]


async def test_a_run_that_may_only_report_proposes_nothing() -> None:
    end, calls = await run(
        templates("en")["nightly-check"].message, {"check_graph": [FINDINGS]}, writes=False
    )
    assert [name for name, _ in calls] == ["check_graph"]
    assert "3 finding(s), 1 of them errors" in end["report"]


async def test_nothing_wrong_is_ok_and_a_failed_read_is_failed() -> None:
    message = templates("en")["nightly-check"].message
    end, _ = await run(message, {"check_graph": ["The rules find nothing wrong with this graph."]})
    assert end["outcome"] == "ok"
    failed = ToolMessage(
        call_id="", name="", content="ERROR unavailable\n- too large", is_error=True
    )
    end, _ = await run(message, {"check_graph": [failed]})
    assert end == {"outcome": "failed", "report": end["report"]}
    assert "too large" in end["report"]


async def test_a_call_that_broke_off_is_made_again() -> None:
    broken = ToolMessage(
        call_id="", name="", content="ERROR interrupted: the turn broke off", is_error=True
    )
    found = "The rules find nothing wrong with this graph."
    end, calls = await run(
        templates("en")["nightly-check"].message, {"check_graph": [broken, found]}
    )
    assert [name for name, _ in calls] == ["check_graph", "check_graph"]
    assert end["outcome"] == "ok"


async def test_what_changed_tells_who_did_what_in_the_period_and_which_rules_are_broken() -> None:
    script: dict[str, list[Answer]] = {"read_history": [HISTORY], "check_graph": [FINDINGS]}
    end, calls = await run(templates("en")["what-changed"].message, script)
    assert calls[0] == ("read_history", {"from": "-1_WEEK", "to": "-1_WEEK", "limit": 200})
    assert not any(name.startswith("propose_") for name, _ in calls), "change nothing"
    report = end["report"]
    for said in (
        "2 change(s), by ann (1), bob (1)",
        "moved Load",
        "undone since",
        "No start reaches c",
    ):
        assert said in report
    quiet = "From a to b, newest first. Nothing changed."
    end, _ = await run(
        "What changed (read_history) from -7_DAY to NOW?", {"read_history": [quiet]}, language="fr"
    )
    assert end["outcome"] == "ok"


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("What changed?", "-1_WEEK", "NOW"),
        ("What changed since yesterday?", "-1_DAY", "NOW"),
        ("Who changed the graph last week?", "-1_WEEK", "-1_WEEK"),
        ("What changed in the past 3 days?", "-3_DAY", "NOW"),
        ("What has changed between -2_MONTH and -1_MONTH?", "-2_MONTH", "-1_MONTH"),
        ("Qu'est-ce qui a changé aujourd'hui ?", "0_DAY", "NOW"),
        ("Show me the latest changes", "-1_WEEK", "NOW"),
        ("Quelles sont les modifications récentes ?", "-1_WEEK", "NOW"),
    ],
)
async def test_a_person_names_the_period_in_words(question: str, start: str, end: str) -> None:
    messages: list[Message] = [
        SystemMessage(content="You are the assistant."),
        UserMessage(content=question),
    ]
    answer = await complete(RulesProvider(), messages, [schema("read_history")])
    (call,) = answer.tool_calls
    assert json.loads(call.arguments) == {"from": start, "to": end, "limit": 200}
    quiet = "From 2026-11-16T00:00:00+00:00 to 2026-11-23T00:00:00+00:00, newest first. Nothing changed."
    messages += [AssistantMessage(content="", tool_calls=answer.tool_calls)]
    messages += [ToolMessage(call_id=call.id, name=call.name, content=quiet)]
    said = (await complete(RulesProvider(), messages, [schema("read_history")])).text
    nothing = "Rien n’a changé" if question.startswith("Qu") else "Nothing changed"
    assert said.endswith(f"{nothing} (2026-11-16 00:00 – 2026-11-23 00:00).")


async def test_embeddings_are_renewed_through_the_tool() -> None:
    asked: list[str] = []

    async def renew(graph_key: str) -> dict[str, Any]:
        asked.append(graph_key)
        return {"nodes": 9, "missing": 2, "queued": True, "model": "m"}

    box = ToolBox((refresh_embeddings(renew),))
    graph = await made([Node(key="n", graph_key="g", type="step")])
    context = ToolContext(source=graph.source, graph_key="g", session_kind="automation")
    result = await box.run("refresh_embeddings", {}, context)
    end, _ = await run(
        templates("en")["fresh-embeddings"].message, {"refresh_embeddings": [result.text]}
    )
    assert asked == ["g"]
    assert (await box.run("refresh_embeddings", {}, graph)).is_error, "not for conversations"
    assert end["outcome"] == "ok"
    assert "2 of 9 nodes had no embedding of the model m" in end["report"]


async def test_another_message_is_answered_as_in_a_conversation_and_then_reported() -> None:
    end, calls = await run(
        "How many nodes are there?", {"read_graph_overview": ["nodes: 4\nedges: 3"]}
    )
    assert [name for name, _ in calls] == ["read_graph_overview"]
    assert "4 nodes and 3 edges" in end["report"]


async def test_the_report_of_a_real_graph_fits_the_tool_and_each_repair_is_accepted() -> None:
    nodes = [
        Node(key=f"n{i}", graph_key="g", type="log-node", data={"name": "same"}) for i in range(60)
    ]
    edges = [
        Edge(
            key=f"e{i}",
            graph_key="g",
            source="n0",
            source_handle="0",
            target=f"n{i}",
            target_handle="0",
        )
        for i in range(1, 4)
    ]
    graph = await made(nodes, edges)
    context = ToolContext(
        source=graph.source, graph_key="g", role="editor", session_kind="automation"
    )
    box = ToolBox((*READ_TOOLS, *WRITE_TOOLS, *SESSION_TOOLS))
    offered = [tool.schema() for tool in box.offered("editor", "automation")]
    messages: list[Message] = [UserMessage(content=templates("en")["nightly-check"].message)]
    proposed: list[str] = []
    for _ in range(8):
        answer = await complete(RulesProvider(), messages, offered)
        messages.append(AssistantMessage(tool_calls=answer.tool_calls))
        for call in answer.tool_calls:
            result = await box.run(call.name, call.arguments, context)
            assert not result.is_error, result.text
            if call.name == "finish_automation":
                assert result.data.outcome == "findings"
                assert proposed == ["e1", "e2", "e3"], (
                    "two findings with one repair make one proposal"
                )
                return
            facts = {"status": "applied"} if call.name.startswith("propose_") else None
            proposed += [json.loads(call.arguments).get("edgeKey")] if facts else []
            messages.append(
                ToolMessage(call_id=call.id, name=call.name, content=result.text, outcome=facts)
            )
    raise AssertionError("the run does not end")

"""The write tools: a right call is resolved, a wrong one is explained, and no
call changes anything.
"""

import json
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasources.mock import open_nba
from graphrag.i18n import Language
from graphrag.llm.tokens import count_tokens, tokenizer_name
from graphrag.prompts.library import load_phrases
from tests.contracts.samples import snapshot as seen
from tests.tools.proposing import GRAPH, PAYLOADS, WORKSPACE, make_graph, values
from tools.actions.field_changes import meant_path
from tools.actions.patches import apply_patches
from tools.base import Problem, ToolContext, ToolResult
from tools.proposal_parts import (
    EdgeConnection,
    Patch,
    ProposedHandle,
    ProposedHandles,
    TypeBorder,
    TypeSize,
)
from tools.proposals import parse_action
from tools.read_tools import READ_TOOLS
from tools.tool_box import ToolBox
from tools.write_tools import WRITE_TOOLS

BOX = ToolBox(WRITE_TOOLS)
NBA = "testgraph001"


@pytest.fixture
def nba() -> ToolContext:
    return ToolContext(source=open_nba().source("test"), graph_key=NBA, role="editor")


async def propose(context: ToolContext, kind: str, **arguments: Any) -> ToolResult:
    return await BOX.run(f"propose_{kind}", {"reason": "because", **arguments}, context)


LOCATOR = {"__rl": True, "mode": "list", "value": "gpt-4o-mini"}
CARRIED: dict[str, Any] = {
    "name": "Ask",
    "topic": "a/b",
    "retries": 2,
    "parameters": {
        "model": LOCATOR,
        "options": {"temperature": 1, "a": 1},
        "more": {"a": 2},
        "url": "u",
    },
}


@pytest.mark.parametrize(
    ("name", "value", "path"),
    [
        ("name", "x", "data.name"),
        ("data.name", "x", "data.name"),
        ("posX", 5, "posX"),
        ("process", "x", "process"),
        ("retries", 3, "data.retries"),
        ("url", "v", "data.parameters.url"),
        ("data.url", "v", "data.parameters.url"),
        ("parameters.url", "v", "data.parameters.url"),
        ("temperature", 0, "data.parameters.options.temperature"),
        ("options.temperature", 0, "data.parameters.options.temperature"),
        ("data.parameters.temperature", 0, "data.parameters.temperature"),
        ("model", "gpt-4o", "data.parameters.model.value"),
        ("data.parameters.model", "gpt-4o", "data.parameters.model.value"),
        ("data.parameters.model", {**LOCATOR, "value": "gpt-4o"}, "data.parameters.model"),
        ("a", 3, "a"),  # two fields end so
        ("unknown", 3, "unknown"),
        ("data.unknown", 3, "data.unknown"),
    ],
)
def test_a_change_that_names_one_field_in_a_shorter_way_is_of_that_field(
    name: str, value: Any, path: str
) -> None:
    assert meant_path({"_key": "n", "type": "t", "data": CARRIED}, name, value) == path


def test_without_fields_of_another_tool_a_new_field_of_data_stays_new() -> None:
    document = {"_key": "n", "data": {"name": "A", "request": {"url": "u"}}}
    assert meant_path(document, "data.url", "v") == "data.url"
    assert meant_path({"_key": "n", "data": None}, "url", "v") == "url"


async def test_a_name_that_leaves_out_data_is_proposed_as_the_field_of_data(
    nba: ToolContext,
) -> None:
    result = await propose(nba, "update_node", nodeKey="root", changes={"name": "Begin"})
    assert result.data["payload"]["changes"] == {"data.name": "Begin"}
    both = await propose(
        nba, "update_node", nodeKey="root", changes={"name": "A", "data.name": "B"}
    )
    assert both.is_error


def test_write_tools_are_not_offered_to_a_viewer() -> None:
    assert BOX.offered("viewer") == []
    assert {len(BOX.offered(role)) for role in ("editor", "reviewer", "admin")} == {10}
    assert all(tool.effect == "proposes" for tool in WRITE_TOOLS)


def test_all_tools_take_3000_tokens_without_losing_an_argument() -> None:
    tools = (*READ_TOOLS, *WRITE_TOOLS)
    schemas = [tool.schema() for tool in tools]
    text = json.dumps(schemas, separators=(",", ":"))
    assert len(tools) == 21
    assert count_tokens(text) <= 3_000, tokenizer_name()
    assert "positions" not in text  # chosen by us
    for tool, schema in zip(tools, schemas, strict=True):
        shown = schema["function"]["parameters"]
        whole = tool.arguments.model_json_schema()
        assert shown["properties"].keys() == whole.get("properties", {}).keys()
        assert set(shown.get("required", ())) == set(whole.get("required", ()))
        assert all("type" in item for item in shown["properties"].values()), tool.name
        assert schema["function"]["description"]


@pytest.mark.parametrize("language", ["en", "fr"])
def test_the_fields_of_nested_arguments_stand_once_in_the_instructions(language: Language) -> None:
    shown = load_phrases("phrases", language)["argument_forms"].body
    parts = (EdgeConnection, Patch, ProposedHandle, ProposedHandles, TypeBorder, TypeSize)
    for part in parts:
        for name, field in part.model_json_schema()["properties"].items():
            assert re.search(rf"\b{name}\b", shown), (part.__name__, name, field)


async def test_what_a_schema_does_not_say_is_still_refused(nba: ToolContext) -> None:
    for arguments in ({"nodeKey": "root", "force": True}, {"nodeKey": 1}, {"nodeKey": ""}):
        result = await propose(nba, "delete_node", **arguments)
        assert result.error.code == "invalid_arguments"
    assert (await BOX.run("propose_move_node", {"nodeKey": "root", "posX": 1e12}, nba)).is_error


async def test_a_proposal_comes_back_resolved_without_its_reason(nba: ToolContext) -> None:
    result = await propose(
        nba, "create_node", typeKey="filter", sheet="data-processing", data={"name": "x"}
    )
    assert not result.is_error
    assert result.data == {
        "type": "create_node",
        "payload": {"typeKey": "filter", "sheet": "1", "data": {"name": "x"}},
    }
    assert "a person decides" in result.text
    assert parse_action(result.data)


async def test_patches_become_the_whole_code(nba: ToolContext) -> None:
    (node,) = await nba.source.get_nodes_by_key(NBA, ["filter-active"])
    patch = {"search": "player.isActive && ", "replace": ""}
    result = await propose(nba, "update_node", nodeKey="filter-active", patches=[patch])
    code = node.process.replace("player.isActive && ", "")
    assert result.data["payload"] == {"nodeKey": "filter-active", "changes": {"process": code}}


def ends(source: str, out: str, target: str, into: str) -> dict[str, str]:
    return {"sourceKey": source, "sourceHandle": out, "targetKey": target, "targetHandle": into}


@pytest.mark.parametrize(
    ("kind", "arguments", "where", "says"),
    [
        ("delete_node", {"nodeKey": "fetch_api"}, "nodeKey", "fetch-api"),
        ("delete_node", {"node_key": "nobody"}, "nodeKey", "no node 'nobody'"),
        ("delete_edge", {"edgeKey": "nope"}, "edgeKey", "list_node_edges"),
        ("create_node", {"typeKey": "filtre"}, "typeKey", "did you mean filter"),
        ("create_node", {"typeKey": "filter", "sheet": "9"}, "sheet", "no sheet '9'"),
        ("create_edge", ends("root", "7", "return", "0"), "sourceHandle", "no out handle '7'"),
        ("create_edge", ends("return", "0", "root", "1"), "sourceHandle", "is an in handle"),
        ("create_edge", ends("entry-form", "0", "root", "0"), "targetHandle", "is an out handle"),
        (
            "create_edge",
            ends("display-html", "0", "root", "1"),
            "targetHandle",
            "what leaves is 'event[]', what the target takes is 'entryType'",
        ),
        ("create_edge", ends("root", "0", "fetch-api", "0"), "", "edge-root-fetch"),
        ("create_edge", ends("root", "0", "sort-stats", "0"), "targetKey", "stays on one sheet"),
        (
            "update_node",
            {"nodeKey": "root", "changes": {"title": "x"}},
            "changes.title",
            "data.title",
        ),
        (
            "update_node",
            {"nodeKey": "root", "changes": {"_key": "x"}},
            "changes._key",
            "cannot be changed",
        ),
        (
            "update_node",
            {"nodeKey": "root", "changes": {"embedding": []}},
            "changes.embedding",
            "not yours",
        ),
        ("update_node", {"nodeKey": "root", "changes": {"posX": "1"}}, "changes.posX", "a number"),
        (
            "update_node",
            {"nodeKey": "root", "changes": {"size.width": -1}},
            "changes.size.width",
            "above 0",
        ),
        (
            "update_node",
            {"nodeKey": "root", "changes": {"type": "tpye"}},
            "changes.type",
            "no node type",
        ),
        (
            "update_node",
            {"nodeKey": "root", "changes": {"data.name.first": "x"}},
            "changes.data.name.first",
            "a text has nothing inside",
        ),
        (
            "update_node",
            {"nodeKey": "root", "changes": {"data.constructor.x": 1}},
            "changes.data.constructor.x",
            "constructor",
        ),
        (
            "update_node",
            {
                "nodeKey": "fetch-api",
                "changes": {"handles": {"L": {"point": [{"id": "0", "type": "in"}]}}},
            },
            "changes.handles",
            "keep the handle or delete the edge",
        ),
        (
            "update_node",
            {"nodeKey": "filter-active", "patches": [{"search": "player", "replace": "p"}]},
            "patches.0.search",
            "times in the code (lines",
        ),
        (
            "update_node",
            {"nodeKey": "filter-active", "patches": [{"search": "isActiv_", "replace": "p"}]},
            "patches.0.search",
            "is not in the code",
        ),
        (
            "configure_node_type",
            {"mode": "create", "typeKey": "filter", "displayName": "F"},
            "typeKey",
            "exists already",
        ),
        (
            "configure_node_type",
            {"mode": "update", "typeKey": "html", "icon": "x"},
            "typeKey",
            "built in",
        ),
        (
            "configure_node_type",
            {"mode": "update", "typeKey": "filter"},
            "mode",
            "nothing to change",
        ),
        ("reorganize_layout", {"nodeKeys": ["root", "rot"]}, "nodeKeys.1", "no node 'rot'"),
        (
            "batch",
            {
                "actions": [
                    {"type": "move_node", "payload": {"nodeKey": "$1", "posX": 1, "posY": 1}}
                ]
            },
            "actions.0.nodeKey",
            "no node '$1'",
        ),
        (
            "batch",
            {
                "actions": [
                    {"type": "delete_node", "payload": {"nodeKey": "root"}},
                    {
                        "type": "update_node",
                        "payload": {"nodeKey": "root", "changes": {"data.x": 1}},
                    },
                ]
            },
            "actions.1.nodeKey",
            "deleted by the same proposal",
        ),
        (
            "batch",
            {"actions": [{"type": "create_node", "payload": {"typeKey": "filter", "key": "root"}}]},
            "actions.0.key",
            "taken by a node of the graph",
        ),
    ],
)
async def test_a_wrong_proposal_says_where_and_what(
    nba: ToolContext, kind: str, arguments: dict[str, Any], where: str, says: str
) -> None:
    result = await propose(nba, kind, **arguments)
    problems = {problem.where: problem for problem in result.error.problems}
    assert where in problems, problems
    assert says in f"{problems[where].what} {problems[where].allowed}"
    assert result.data is None


async def test_replacing_an_edge_by_the_same_one_in_a_batch_is_no_duplicate(
    nba: ToolContext,
) -> None:
    edge = ends("root", "0", "fetch-api", "0")
    actions = [
        {"type": "delete_edge", "payload": {"edgeKey": "edge-root-fetch"}},
        {"type": "create_edge", "payload": edge},
    ]
    assert not (await propose(nba, "batch", actions=actions)).is_error
    twice = [*actions, {"type": "create_edge", "payload": edge}]
    result = await propose(nba, "batch", actions=twice)
    assert result.error.problems[0].where == "actions.2"


hostile = st.one_of(
    st.text(max_size=20),
    st.dictionaries(st.text(max_size=8), values | st.floats() | st.text(), max_size=4).map(
        json.dumps
    ),
    st.binary(max_size=20).map(lambda raw: raw.decode("latin-1")),
)


@given(st.sampled_from(sorted(PAYLOADS)), st.data())
async def test_no_call_of_a_write_tool_changes_the_graph(kind: str, data: st.DataObject) -> None:
    arguments = data.draw(PAYLOADS[kind])
    arguments["reason"] = "because"
    if data.draw(st.booleans()):
        arguments |= {
            data.draw(st.sampled_from([*arguments, "graphKey", "key", "positions"])): data.draw(
                values
            )
        }

    source = (await make_graph()).source(WORKSPACE)
    before = await seen(source)
    context = ToolContext(source=source, graph_key=GRAPH, role="admin")
    result = await BOX.run(f"propose_{kind}", json.dumps(arguments), context)
    assert result.is_error or parse_action(result.data)
    raw = data.draw(hostile)
    with suppress(UnicodeEncodeError):
        await BOX.run(f"propose_{kind}", raw, context)
    assert await seen(source) == before


code_lines = st.lists(st.sampled_from(["a = 1;", "b = 2;", "", "  c();"]), max_size=5).map(
    "\n".join
)


@given(
    code_lines,
    st.text(alphabet="abc =;\n", min_size=1, max_size=6),
    st.text(alphabet="xy", max_size=3),
)
def test_a_patch_applies_where_its_search_stands_once_alone(
    code: str, search: str, replace: str
) -> None:
    places = [i for i in range(len(code)) if code.startswith(search, i)]
    problems: list[Problem] = []
    patched = apply_patches(code, [Patch(search=search, replace=replace)], "", problems)
    if len(places) != 1:
        assert patched == code
        assert [problem.where for problem in problems] == ["patches.0.search"]
        return
    (start,) = places
    assert patched == code[:start] + replace + code[start + len(search) :]


def test_a_later_patch_sees_what_an_earlier_one_wrote() -> None:
    patches = [Patch(search="one", replace="two three"), Patch(search="three", replace="four")]
    problems: list[Problem] = []
    assert apply_patches("one", patches, "", problems) == "two four"
    assert (
        apply_patches("one", [patches[0], Patch(search="one", replace="x")], "actions.2", problems)
        == "one"
    )
    assert [problem.where for problem in problems] == ["actions.2.patches.1.search"]


def test_a_search_with_other_blanks_is_explained() -> None:
    problems: list[Problem] = []
    patch = Patch(search="if (a) {\n  return;", replace="")
    apply_patches("if (a) {\n\treturn;\n}", [patch], "", problems)
    apply_patches("", [patch], "", problems)
    assert "other blanks" in problems[0].what
    assert "no code yet" in problems[1].what


HANDLES = {
    "R": {"point": [{"id": "a", "type": "out"}, {"id": "b", "type": "out", "accept": "error"}]}
}


async def test_a_new_node_may_have_handles_of_its_own(nba: ToolContext) -> None:
    edge = {
        "direction": "out",
        "handleId": "b",
        "targetNodeKey": "error-handler",
        "targetHandleId": "0",
    }
    made = {"typeKey": "api-call", "handles": HANDLES, "edges": [edge]}
    assert not (await propose(nba, "create_node_with_edges", **made)).is_error
    other = {
        **made,
        "edges": [{**edge, "handleId": "1"}],
    }  # that of the type, which the node does not have
    assert (await propose(nba, "create_node_with_edges", **other)).is_error
    twice = {"R": {"point": [{"id": "a", "type": "out"}, {"id": "a", "type": "out"}]}}
    refused = await propose(nba, "create_node", typeKey="api-call", handles=twice)
    assert refused.error.problems[0].where == "handles.R.point.1.id"

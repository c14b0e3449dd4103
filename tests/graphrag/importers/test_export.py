"""The way back: a file that nobody touched is written as it was, and what changed is
in the file.
"""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from datasources.types import Edge, Node
from graphrag.importers import GraphContent, import_workflow
from graphrag.importers.export import export_as
from tests.graphrag.importers.helpers import WORKSPACE
from tests.support.data_files import workflow_batches
from tools.secret_texts import PLACEHOLDER

ROOT = Path(__file__).parents[3]
SAMPLES = sorted((ROOT / "mock_data/workflows").glob("*.json"))
TRIED = pytest.mark.parametrize("paths", [pytest.param(SAMPLES, id="samples"), *workflow_batches()])


def read(raw: bytes, name: str = "file.json") -> tuple[GraphContent, bytes, str]:
    found = import_workflow(raw, file_name=name, workspace=WORKSPACE)
    return GraphContent.of(found), found.kept, found.report.format


def differences(old: Any, new: Any, where: str = "") -> list[str]:
    """Return where two files differ, other than by by a placeholder and credentials' ids."""
    if where.endswith("/credentials"):
        old = {
            kind: {"name": one if isinstance(one, str) else one.get("name")}
            for kind, one in old.items()
        }
        new = {kind: {"name": one["name"]} for kind, one in new.items()}
    if isinstance(old, dict) and isinstance(new, dict):
        names = old.keys() | new.keys()
        return [
            d
            for name in sorted(names)
            for d in differences(old.get(name), new.get(name), f"{where}/{name}")
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            d
            for i, (a, b) in enumerate(zip(old, new, strict=True))
            for d in differences(a, b, f"{where}/{i}")
        ]
    if old == new or (isinstance(new, str) and PLACEHOLDER in new):
        return []
    return [f"{where}: {str(old)[:60]} | {str(new)[:60]}"]


def essence(content: GraphContent) -> tuple[Any, Any]:
    """Return what a graph says, by the names of its nodes, which are made unique first."""

    def what(node: Node) -> Any:
        data = {k: v for k, v in node.data.items() if k not in ("group", "members", "language")}
        return node.type, data, node.process, node.pos_x, node.pos_y

    names = {
        node.key: orjson.dumps(what(node), option=orjson.OPT_SORT_KEYS)
        for node in content.nodes.values()
    }
    ends = [
        (names[e.source], e.source_handle, names[e.target], e.target_handle)
        for e in content.edges.values()
    ]
    return sorted(names.values()), sorted(ends)


@TRIED
def test_a_file_that_nobody_touched_is_written_as_it_was(paths: list[Path]) -> None:
    for path in paths:
        raw = path.read_bytes()
        content, kept, form = read(raw)
        back = export_as(form, content, kept)
        assert not back.report.notices, path
        old = orjson.loads(raw)
        if form == "n8n" and "nodes" not in old:
            old = old["workflow"]
        if form == "n8n":  # what an import says that it leaves out is not kept either
            bulky = {
                name
                for name in ("pinData", "staticData")
                if len(orjson.dumps(old.get(name))) > 20_000
            }
            for name in ("shared", "activeVersion", *bulky):
                old.pop(name, None)
        if form == "node-red":
            old = old if isinstance(old, list) else old["flows"]
            for entry in old:
                entry.pop("credentials", None)
        assert differences(old, back.document) == [], path
        assert essence(read(back.text())[0]) == essence(content), path


def edited(content: GraphContent, chance: random.Random) -> GraphContent:
    """Return the graph after edits of all kinds: moved, renamed, disabled, deleted,
    cut, joined, added.
    """
    nodes = dict(content.nodes)
    edges = dict(content.edges)
    steps = [
        key
        for key, node in nodes.items()
        if node.type not in ("note", "group") and "subflow-" not in node.type and node.handles
    ]
    for number, key in enumerate(chance.sample(steps, min(4, len(steps)))):
        node = nodes[key]
        data = dict(node.data)
        if number == 0:
            data |= {"name": f"Renamed {key}", "notes": "noted"}
        elif number == 1:
            data |= {
                "disabled": True,
                "parameters": {**data.get("parameters", {}), "added": {"a": [1]}},
            }
        elif number == 2:
            del nodes[key]
            edges = {k: e for k, e in edges.items() if key not in (e.source, e.target)}
            continue
        nodes[key] = node.replace(pos_x=node.pos_x + 40, pos_y=-17, data=data)
    for key in chance.sample(sorted(edges), min(2, len(edges))):
        del edges[key]
    left = [
        nodes[key]
        for key in steps
        if key in nodes and nodes[key].points("in") and nodes[key].points("out")
    ]
    left = [
        n
        for n in left
        if "link" not in n.type and n.points("out")[0][1].id == n.points("in")[0][1].id == "0"
    ]
    if left:
        like = chance.choice(left)
        new = like.replace(
            key="brand-new", data={"name": "Brand new", "parameters": {"own": "y"}}, process=None
        )
        new = Node.model_validate(
            {k: v for k, v in new.to_document().items() if k != "origin"}, by_alias=True
        )
        nodes["brand-new"] = new
        for source, target in ((like.key, "brand-new"), ("brand-new", like.key)):
            key = f"{source}>{target}"
            edges[key] = Edge(
                key=key, graph_key=like.graph_key, sheet=like.sheet, source=source, target=target
            )
    return replace(content, nodes=nodes, edges=edges)


@TRIED
def test_what_people_changed_is_in_the_file_and_the_rest_stays(paths: list[Path]) -> None:
    left_out: list[str] = []
    for path in paths:
        content, kept, form = read(path.read_bytes())
        names = [node.data.get("name") for node in content.nodes.values() if node.type != "note"]
        if len(names) != len(set(names)) and form == "n8n":
            left_out.append(path.name)
            continue
        for seed in range(3):
            changed = edited(content, random.Random(seed))
            back = export_as(form, changed, kept)
            again = read(back.text())[0]
            assert essence(again) == essence(changed), path
            second = export_as(
                form, again, import_workflow(back.text(), file_name="f", workspace="w").kept
            )
            assert differences(orjson.loads(back.text()), second.document) == [], path
    print("left out, for names tell connections apart and theirs are not unique:", *left_out)
    assert len(left_out) <= max(1, len(paths) // 10), left_out

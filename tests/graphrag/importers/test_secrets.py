"""No value that was taken out of a file occurs anywhere in what an import makes of it."""

import base64
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest

from graphrag.importers import ImportResult, import_workflow
from graphrag.importers.json_values import as_dict, as_list
from graphrag.importers.secrets import without_secrets
from mock_data import load_json
from tests.graphrag.importers.helpers import (
    WORKSPACE,
    dropped_count,
    imported,
    n8n,
    n8n_node,
    read,
    remarks,
)
from tests.support.data_files import workflow_batches
from tools.secret_texts import PLACEHOLDER

DATA = Path(__file__).parents[2] / "data" / "cases"
PASSWORD = "hunter2secret"
KEY = "Zq81kXw90LmPf27aTr55"
TOKEN = "ghp_" + "aB3dE5gH7jK9" * 3
PLANTED = f" https://bob:{PASSWORD}@host.example/x?api_key={KEY} {TOKEN}"


def everything(result: ImportResult) -> str:
    """Return all that an import makes of a file as one text: documents, remarks, and what is
    kept of it.
    """
    documents = [result.graph, *result.nodes, *result.edges, *result.configs]
    texts = [document.to_json().decode() for document in documents]
    return "\n".join(
        [*texts, *result.report.lines("en"), *result.report.lines("fr"), _kept(result)]
    )


def _kept(result: ImportResult) -> str:
    return zlib.decompress(result.kept).decode()


def taken_out(before: Any, after: Any) -> Iterator[str]:
    """Yield the pieces of a document's texts that the placeholder stands for in the clean one."""
    if isinstance(before, str):
        place = 0
        pieces = str(after).split(PLACEHOLDER)
        for here, there in pairwise(pieces):
            begin = before.index(here, place) + len(here)
            place = before.index(there, begin) if there else len(before)
            yield before[begin:place]
    elif isinstance(before, list):
        for one, other in zip(before, after, strict=True):
            yield from taken_out(one, other)
    elif isinstance(before, dict):
        for name, clean in zip(
            [n for n in before if n != "credentials"], after.values(), strict=False
        ):
            yield from taken_out(before[name], clean)


def planted(value: Any, *, names_too: bool) -> Any:
    """Return a document with secrets at the end of each of its texts, and of each name
    of a connection.
    """
    if isinstance(value, str):
        return value + PLANTED
    if (listed := as_list(value)) is not None:
        return [planted(item, names_too=names_too) for item in listed]
    if (fields := as_dict(value)) is None:
        return value
    kept = () if names_too else ("type", "id", "z")
    return {
        name + PLANTED if isinstance(inner, dict) and "main" in inner else name: inner
        if name in kept
        else planted(inner, names_too=names_too)
        for name, inner in fields.items()
    }


@pytest.mark.parametrize("names_too", [True, False])
@pytest.mark.parametrize("file", ["order_refund.json", "greenhouse_climate.json"])
def test_secrets_in_every_text_of_a_workflow_are_nowhere_in_the_result(
    file: str, names_too: bool
) -> None:
    document = planted(load_json(f"workflows/{file}"), names_too=names_too)
    text = everything(read(document))
    assert PLACEHOLDER in text
    for secret in (PASSWORD, KEY, TOKEN, TOKEN[4:20], KEY.lower(), PASSWORD.lower()):
        assert secret not in text


def test_an_unnamed_node_is_not_called_by_the_secret_in_its_address() -> None:
    result = read((DATA / "02-node-red-unnamed-secret" / "flow.json").read_bytes())
    text = everything(result).lower()
    assert "zq81kxw90lmpf27atr55" not in text
    assert "hunter2secret" not in text
    assert dropped_count(result.report, "secret") == 2
    assert "left out 2 secrets: a secret in an address" in remarks(result)


@pytest.mark.parametrize(
    "fields",
    [
        {
            "headers": [
                {
                    "keyType": "other",
                    "keyValue": "X-API-Key",
                    "valueType": "other",
                    "valueValue": "hush-1",
                }
            ]
        },
        {
            "rules": [
                {
                    "t": "set",
                    "p": "headers.Authorization",
                    "pt": "msg",
                    "to": "hush-1",
                    "tot": "str",
                }
            ]
        },
        {"props": [{"p": "password", "v": "hush-1", "vt": "str"}]},
        {"password": 41414141},
        {"apiKey": {"__rl": True, "mode": "id", "value": "hush-1"}},
        {"access_token": ["hush-1"]},
        {"password": "=hush-1"},
    ],
)
def test_a_secret_is_found_by_its_name_however_the_value_is_written(fields: Any) -> None:
    result = read([{"id": "1", "type": "x", "z": "t", "x": 1, "y": 1, "wires": [], **fields}])
    text = everything(result)
    assert "hush-1" not in text
    assert "41414141" not in text
    assert dropped_count(result.report, "secret") == 1


@pytest.mark.parametrize(
    "fields",
    [
        {
            "rules": [
                {
                    "t": "set",
                    "p": "headers.Authorization",
                    "pt": "msg",
                    "to": "token",
                    "tot": "flow",
                }
            ]
        },
        {
            "parameters": {
                "credentials": "include",
                "password": "$PASSWORD",
                "token": "<your token>",
            }
        },
        {"passwordType": "str", "maxTokens": 4000},
    ],
)
def test_what_only_refers_to_a_secret_stays(fields: Any) -> None:
    result = read([{"id": "1", "type": "x", "z": "t", "x": 1, "y": 1, "wires": [], **fields}])
    assert result.nodes[0].data["parameters"] == fields
    assert dropped_count(result.report, "secret") == 0


async def test_persons_and_copies_of_an_api_answer_are_not_kept_either() -> None:
    project = {"name": "Ada Byron <ada@example.org>"}
    answer = n8n(
        [n8n_node("A")],
        shared=[{"role": "workflow:owner", "project": project}],
        homeProject=project,
        activeVersion={
            "nodes": [n8n_node("Older", notes="by ada@example.org")],
            "authors": "Ada Byron",
        },
        pinData={"A": ["bulky" * 10_000]},
    )
    result = read({"data": answer})
    text = everything(result)
    for dropped in ("ada@example.org", "Ada Byron", "Older", "bulkybulky"):
        assert dropped not in text
    assert dropped_count(result.report, "sharing list") == 2
    assert dropped_count(result.report, "published version") == 1
    bench = await imported(answer)
    record = await bench.approvals.records.get("imports", "small-flow-small")
    assert record is not None
    assert b"ada@example.org" not in zlib.decompress(base64.b64decode(record.data["source"]))


@pytest.mark.parametrize("paths", workflow_batches(parts=1))
def test_in_workflows_nothing_that_was_taken_out_is_left_and_little_is_taken(
    paths: list[Path],
) -> None:
    found: list[str] = []
    for path in paths:
        raw = path.read_bytes()
        removed = [*taken_out(orjson.loads(raw), without_secrets(orjson.loads(raw)))]
        found += removed
        text = everything(import_workflow(raw, file_name=path.name, workspace=WORKSPACE))
        assert not [value for value in removed if len(value) > 3 and value in text], path
    assert len(found) <= 8, (
        found
    )  # read by a person: seven tokens and passwords, none of them a stand-in

"""Reads which runs of a workflow failed on an n8n server."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from graphrag.connections.document_patch import is_same
from graphrag.connections.editor import ServerNotice
from graphrag.connections.server_http import ServerHttp, short_text
from graphrag.importers.json_values import Json, as_dict, as_list, as_text

SERVER = "n8n"
PATH = "/api/v1/executions"
RIGHTS = "execution:list, execution:read"
MAX_READ = 5
"""Failed runs that are read: each comes with all data of its nodes, which is left out."""
MAX_LISTED = 50


async def failed_runs(http: ServerHttp, workflow_id: str, *, since: int, until: int) -> list[Json]:
    """Returns the newest failed runs that were started in this time, oldest first.

    Units: milliseconds since 1970. Raises: EditorFault.
    """
    params = {"status": "error", "workflowId": workflow_id, "limit": str(MAX_LISTED)}
    answer = await http.get(PATH, params=params)
    listed = as_dict(http.value_of(answer, server=SERVER, right=RIGHTS)) or {}
    runs = [run for run in map(as_dict, as_list(listed.get("data")) or []) if run is not None]
    ids = [str(run["id"]) for run in runs if "id" in run and since <= _started(run) <= until]
    failed: list[Json] = []
    for run_id in reversed(ids[:MAX_READ]):
        answer = await http.get(f"{PATH}/{run_id}", params={"includeData": "true"})
        failed.append(as_dict(http.value_of(answer, server=SERVER, right=RIGHTS)) or {})
    return failed


def is_run_of(run: Json, version: Json) -> bool:
    """Returns whether a run was one of these nodes; the server adds the defaults of parameters.

    The version that a run names is that of the draft at its time, also where an older one runs
    (n8n 2.40).
    """
    ran = _by_id(as_dict(run.get("workflowData")) or {})
    nodes = _by_id(version)
    return ran.keys() == nodes.keys() and all(
        _holds(ran[key].get("parameters"), node.get("parameters")) for key, node in nodes.items()
    )


def failure_of(run: Json) -> ServerNotice:
    """Returns what failed in a run: the node and what it said, without the data that it had."""
    result = as_dict((as_dict(run.get("data")) or {}).get("resultData")) or {}
    error = as_dict(result.get("error")) or {}
    node = as_dict(error.get("node")) or {}
    return ServerNotice(
        node_id=as_text(node.get("id")) or as_text(result.get("lastNodeExecuted")) or "?",
        message=short_text(as_text(error.get("message")) or ""),
    )


def _by_id(workflow: Json) -> dict[str, Json]:
    nodes = map(as_dict, as_list(workflow.get("nodes")) or [])
    return {str(node.get("id")): node for node in nodes if node is not None}


def _holds(value: Any, part: Any) -> bool:
    """Returns whether a value has all that `part` has; it may have more fields."""
    fields, wanted = as_dict(value), as_dict(part)
    if fields is not None and wanted is not None:
        return all(_holds(fields.get(name), each) for name, each in wanted.items())
    items, several = as_list(value), as_list(part)
    if items is not None and several is not None:
        return len(items) == len(several) and all(map(_holds, items, several))
    return is_same(value, part)


def _started(run: Json) -> int:
    """Returns when a run was started, in milliseconds since 1970; 0 where it is not told."""
    try:
        return int(datetime.fromisoformat(as_text(run.get("startedAt")) or "").timestamp() * 1000)
    except ValueError:
        return 0

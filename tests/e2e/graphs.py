"""Graphs for the page to show: large ones, and hostile ones."""

from __future__ import annotations

from typing import Any

HOSTILE = [
    "<img src=x onerror=\"document.title='owned'\">",
    "<script>document.title='owned'</script>",
    "\"><svg onload=document.title='owned'>",
    "javascript:document.title='owned'",
    "{{node:<b>x</b>}}",
    "\u202egnp.exe",
    "'); document.title='owned'; ('",
    "__proto__",
]


def _point(kind: str) -> dict[str, Any]:
    return {"position": "separate", "point": [{"id": "0", "type": kind, "accept": "any"}]}


def _node(key: str, x: int, y: int, data: Any, type_: str = "starter") -> dict[str, Any]:
    return {
        "_key": key,
        "graphKey": "g",
        "type": type_,
        "sheet": "0",
        "posX": x,
        "posY": y,
        "size": {"width": 220, "height": 140},
        "handles": {"L": _point("in"), "R": _point("out")},
        "data": data,
    }


def _document(
    key: str, name: str, nodes: list[dict[str, Any]], edges: list[dict[str, Any]]
) -> dict[str, Any]:
    for part in (*nodes, *edges):
        part["graphKey"] = key
    graph = {
        "_key": key,
        "name": name,
        "workspace": "default",
        "sheetsList": {"0": "main"},
        "description": name,
    }
    return {"graph": graph, "nodes": nodes, "edges": edges, "configs": []}


def _edge(key: str, source: str, target: str, **more: Any) -> dict[str, Any]:
    ends = {"source": source, "sourceHandle": "0", "target": target, "targetHandle": "0"}
    return {"_key": key, "graphKey": "g", "sheet": "0", **ends, **more}


def large_graph(key: str, count: int) -> dict[str, Any]:
    """Return a graph of many nodes in rows, each connected to the one before."""
    nodes = [
        _node(
            f"n{i}",
            i % 25 * 300,
            i // 25 * 200,
            {"name": f"Step {i}", "url": "https://example.test"},
        )
        for i in range(count)
    ]
    edges = [_edge(f"e{i}", f"n{i - 1}", f"n{i}") for i in range(1, count)]
    return _document(key, f"Large {count}", nodes, edges)


def hostile_graph(key: str) -> dict[str, Any]:
    """Return a graph whose names, data, code, labels, sheets and types are attacks."""
    nodes = [
        {**_node(f"h{i}", i * 300, 0, {"name": text, text: text, "text": text}), "process": text}
        for i, text in enumerate(HOSTILE)
    ]
    edges = [_edge(f"x{i}", f"h{i - 1}", f"h{i}", label=HOSTILE[i]) for i in range(1, len(nodes))]
    document = _document(key, HOSTILE[0], nodes, edges)
    document["graph"]["sheetsList"] = {"0": HOSTILE[1], "1": HOSTILE[0]}
    return document

"""Runs and explains queries."""

from __future__ import annotations

import time

from tests.support.arangodouble.errors import AqlError
from tests.support.arangodouble.evaluator import Compiler, Runtime, conjuncts
from tests.support.arangodouble.parser import parse


def check_binds(query, binds):
    for b in sorted(query.binds):
        if b not in binds:
            raise AqlError(
                1551, f"AQL: no value specified for declared bind parameter '{b}' (while parsing)"
            )
    for b in sorted(binds):
        if b not in query.binds:
            raise AqlError(
                1552, f"AQL: bind parameter '{b}' was not declared in the query (while parsing)"
            )


def prepare(access, text, binds=None, options=None):
    binds = binds or {}
    query = parse(text, binds)
    check_binds(query, binds)
    rt = Runtime(access, binds, options)
    c = Compiler(rt, query)
    for ds in query.withs:
        c.resolve(ds)
    for ds in query.writes:
        c.resolve(ds, write=True)
    return rt, query, c, c.body(query.statements, top=True)


def execute(access, text, binds=None, options=None):
    """-> (results, Runtime). A failing query leaves nothing behind."""
    rt, _query, _, run = prepare(access, text, binds, options)
    mark = len(access.undo)
    began = time.monotonic()
    try:
        result = run({})
    except BaseException:
        access.rollback(mark)
        raise
    rt.stats.update(
        cursorsCreated=0,
        cursorsRearmed=0,
        cacheHits=0,
        cacheMisses=0,
        httpRequests=0,
        executionTime=time.monotonic() - began,
        peakMemoryUsage=32768,
        intermediateCommits=0,
        documentLookups=0,
    )
    if rt.full_count is not None:
        rt.stats["fullCount"] = rt.full_count
    return result, rt


def explain(access, text, binds=None, options=None):
    """A valid shape, with node types guessed from the text: this is not the optimizer's plan."""
    rt, query, c, _ = prepare(access, text, binds, options)
    nodes = []

    def add(kind, **extra):
        nodes.append(
            {
                "type": kind,
                "dependencies": [len(nodes)] if nodes else [],
                "id": len(nodes) + 1,
                "estimatedCost": len(nodes) + 1,
                "estimatedNrItems": 1,
                **extra,
            }
        )

    def visit(sts):
        add("SingletonNode")
        for st in sts:
            for x in st.walk():
                if x.kind == "subquery":
                    add("SubqueryNode")
            if st.kind == "for":
                if st.src.kind != "ds":
                    add("EnumerateListNode")
                else:
                    kind, name = c.resolve(st.src)
                    near = getattr(st, "near", False)
                    conds = [
                        e
                        for s in sts
                        for cj in (conjuncts(s.cond) if s.kind == "filter" else [])
                        if (e := c.equality(cj, st.var, {st.var}))
                    ]
                    fields = (
                        set()
                        if kind == "view"
                        else access.collection(name).indexed_fields() | {"_key", "_id"}
                    )
                    hit = kind != "view" and any(e[1] in fields for e in conds)
                    add(
                        "EnumerateViewNode"
                        if kind == "view"
                        else "EnumerateNearVectorNode"
                        if near
                        else "IndexNode"
                        if hit
                        else "EnumerateCollectionNode",
                        **{"view" if kind == "view" else "collection": name},
                    )
            else:
                add(
                    {
                        "traversal": "TraversalNode",
                        "path": "ShortestPathNode",
                        "let": "CalculationNode",
                    }.get(st.kind, st.kind.capitalize() + "Node")
                )

    visit(query.statements)
    names = [{"name": c.ds_name(d), "type": "read"} for d in query.reads] + [
        {"name": c.ds_name(d), "type": "write"} for d in query.writes
    ]
    return {
        "plan": {
            "nodes": nodes,
            "rules": [],
            "collections": names,
            "variables": [],
            "estimatedCost": len(nodes),
            "estimatedNrItems": 1,
            "isModificationQuery": query.modifies,
        },
        "cacheable": not query.modifies,
        "warnings": rt.warnings,
        "stats": {"rulesExecuted": 0, "rulesSkipped": 0, "plansCreated": 1},
    }

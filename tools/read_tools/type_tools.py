"""The tools about node types: `read_node_config` and `list_available_node_types`."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

from pydantic import Field

from datasources.builtin_types import BUILTIN_TYPES
from datasources.text import tokenize
from datasources.types import NodeTypeConfig
from tools.base import Problem, ToolArguments, ToolContext, ToolResult, failure, read_tool
from tools.compact import compact_handles, compact_value, cut, cut_name
from tools.read_tools.views import MAX_TYPE_CHARS, Row, all_types, table
from tools.toon import encode

MAX_HANDLES_CHARS = 240


class ReadNodeConfig(ToolArguments):
    type_key: Annotated[str, Field(min_length=1, max_length=400)]
    offset: Annotated[int, Field(ge=0, le=1_000_000_000)] = 0


@read_tool("A type: handles, code.", {"typeKey": "html"})
async def read_node_config(arguments: ReadNodeConfig, context: ToolContext) -> ToolResult:
    stats = await context.source.get_stats(context.graph_key)
    types = await all_types(context)
    config = types.get(arguments.type_key)
    if config is None:
        return await _unknown_type(arguments.type_key, types, context)
    process = config.node.process or ""
    page = process[arguments.offset : arguments.offset + context.limits.detail_chars]
    end = arguments.offset + len(page)
    shown: dict[str, Any] = {
        "type": config.type,
        "name": cut_name(config.display_name, 80),
        "description": cut(config.description, 1_000) or None,
        "category": cut_name(config.category, 60),
        "origin": origin_of(config),
        "nodes_here": stats.types.get(config.type, 0),
        "handles": cut(compact_handles(config.node.handles), 4_000) or None,
        "size": f"{config.node.size.width:g}x{config.node.size.height:g}",
        "content": cut(compact_value(config.content), context.limits.field_chars)
        if config.content
        else None,
        "process": page or None,
    }
    text = encode({name: value for name, value in shown.items() if value is not None})
    if end < len(process):
        text += f"\nCode: characters {arguments.offset}–{end} of {len(process)}; go on with offset={end}."
    return ToolResult(text=text, data=config.to_document())


async def _unknown_type(
    wanted: str, types: dict[str, NodeTypeConfig], context: ToolContext
) -> ToolResult:
    nodes = await context.source.get_nodes_by_key(context.graph_key, [wanted])
    if nodes:
        what = f"{wanted[:200]!r} is a node, not a type; its type is {nodes[0].type[:200]!r}"
        return failure("not_found", Problem(what=what, where="typeKey"))
    low = wanted.casefold()
    names = {text.casefold(): c.type for c in types.values() for text in (c.display_name, c.type)}
    near = [names[text] for text in difflib.get_close_matches(low, list(names), n=5, cutoff=0.5)]
    hint = (
        f"did you mean {', '.join(dict.fromkeys(near))}?"
        if near
        else "see list_available_node_types"
    )
    return failure(
        "not_found", Problem(what=f"no node type {wanted[:200]!r}; {hint}", where="typeKey")
    )


def origin_of(config: NodeTypeConfig) -> str:
    """Returns the origin of a type: "built-in", or the key of the workspace that stores it."""
    return "built-in" if BUILTIN_TYPES.get(config.type) is config else config.workspace


class ListNodeTypes(ToolArguments):
    query: Annotated[str | None, Field(max_length=400)] = None
    category: Annotated[str | None, Field(max_length=400)] = None
    max_results: Annotated[int, Field(ge=1, le=100)] = 40
    offset: Annotated[int, Field(ge=0, le=1_000_000)] = 0


@read_tool("The types, with handles.", {"query": "http request", "maxResults": 10})
async def list_available_node_types(arguments: ListNodeTypes, context: ToolContext) -> ToolResult:
    used = (await context.source.get_stats(context.graph_key)).types
    types = await all_types(context)
    wanted = set(tokenize(arguments.query)) if arguments.query else set[str]()
    matching = [config for config in types.values() if _matches(config, wanted, arguments.category)]
    matching.sort(key=lambda config: (-used.get(config.type, 0), config.type))
    page = matching[arguments.offset : arguments.offset + arguments.max_results]
    rows = [_type_row(config, used.get(config.type, 0)) for config in page]
    without = sorted(name for name in used if name not in types)
    parts: list[str] = []
    if rows:
        columns = ["type", "name", "category", "description", "handles", "nodes_here"]
        parts.append(table("types", rows, columns))
    else:
        parts.append(f"None of the {len(types)} types matches; call without query and category.")
    left = len(matching) - arguments.offset - len(page)
    if left > 0:
        parts.append(f"{left} more: call again with offset={arguments.offset + len(page)}.")
    if without and not wanted and arguments.category is None:
        shown = [
            {"type": cut(name, MAX_TYPE_CHARS), "nodes_here": used[name]} for name in without[:20]
        ]
        parts.append(table("types_without_configuration", shown, ["type", "nodes_here"]))
    return ToolResult(text="\n".join(parts), data={"types": rows, "total": len(matching)})


def _matches(config: NodeTypeConfig, words: set[str], category: str | None) -> bool:
    if category is not None and config.category.casefold() != category.strip().casefold():
        return False
    if not words:
        return True
    text = f"{config.type} {config.display_name} {config.category} {config.description}"
    return words <= set(tokenize(text))


def _type_row(config: NodeTypeConfig, used: int) -> Row:
    return {
        "type": cut(config.type, MAX_TYPE_CHARS),
        "name": cut_name(config.display_name, 80),
        "category": cut_name(config.category, 60),
        "description": cut_name(config.description, 160) or None,
        "handles": cut(compact_handles(config.node.handles), MAX_HANDLES_CHARS) or None,
        "nodes_here": used,
    }

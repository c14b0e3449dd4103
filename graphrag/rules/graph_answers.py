"""Answers about one graph or all graphs, and the search for questions that match no pattern."""

from __future__ import annotations

import re
from collections.abc import Sequence

from datasources.text import fold, tokenize
from graphrag.i18n import LANGUAGES, Language
from graphrag.rules.markup import bullets, cite, cite_row, code, links_of, path_line, plain
from graphrag.rules.patterns import grammar
from graphrag.rules.resolver import NOTES, english, read_types, the_type, type_lines
from graphrag.rules.turn_state import NotNamed, RulesTurn, around, listing
from tools.answer_tables import Row, ToolTables, cell, key_of
from tools.node_sets import asks_for_set

REACH = 12
LISTED, SHOWN_VALUES, SHOWN_NOTES = 50, 12, 2
MAX_QUERY, SHOWN, SHOWN_OF_MANY = 900, 3, 8
SEARCH_ALL, SHOWN_USES = "search_workspace", 30
_QUOTES = "\"'`“”«» "
_WORD = re.compile(r"[^\W_][\w.]+")
_LEFT = re.compile(r"(?:at least )?(?P<count>\d+) more: the same call")


def describe_graph(turn: RulesTurn) -> str:
    """Returns the purpose of the graph, from its name, description and notes, and its flow from
    start to end.

    The pattern may select some of these lines.
    """
    overview = turn.read("read_graph_overview")
    only = turn.request.options.get("only", "").split(",")
    parts = dict[str, str]()
    for name, rows in (
        ("starts_at", "entry_points"),
        ("ends_at", "ends"),
        ("alone", "without_edges"),
    ):
        if matches := overview.rows(rows):
            parts[name] = turn.say(name, nodes=_cited(matches))
    if way := overview.rows("longest_way"):
        parts["flow"] = f"{turn.say('flow')}\n{' → '.join(cite(key_of(row)) for row in way)}"
    if only != [""]:
        return "\n".join(parts[name] for name in only if name in parts) or turn.say(
            f"none_{only[0]}"
        )
    description = plain(overview.text_of("description"))
    lines = [
        f"**{plain(overview.text_of('name'), 120)}**" + (f": {description}" if description else "")
    ]
    notes = [plain(cell(row.get("text")), 240) for row in overview.rows("notes")]
    lines += [turn.say("notes"), bullets(notes)] if notes else []
    lines += [parts[name] for name in ("starts_at", "flow", "ends_at", "alone") if name in parts]
    return "\n".join([*lines, sizes(turn, overview)])


def _cited(rows: Sequence[Row]) -> str:
    return ", ".join(cite_row(row, with_type=False) for row in rows[:9]) + (
        ", …" if len(rows) > 9 else ""
    )


def sizes(turn: RulesTurn, overview: ToolTables) -> str:
    """Returns the numbers of nodes, edges and sheets, and the names of the sheets."""
    sheets = overview.rows("sheets")
    counts = ["" if row.get("nodes") is None else f": {row['nodes']}" for row in sheets]
    shown = [
        plain(cell(row.get("sheet")), 80) + count for row, count in zip(sheets, counts, strict=True)
    ]
    notes = sum(
        int(row.get("nodes") or 0) for row in overview.rows("types") if row.get("type") in NOTES
    )
    nodes = int(overview.fields.get("nodes", 0)) - notes
    edges = overview.fields.get("edges", 0)
    facts = {"nodes": nodes, "edges": edges, "sheets": len(sheets), "list": ", ".join(shown[:10])}
    return turn.say("sizes", **facts) + (f" {turn.say('and_notes', notes=notes)}" if notes else "")


def list_types(turn: RulesTurn) -> str:
    """Returns the list of node types."""
    rows = read_types(turn)
    return f"{turn.say('types', count=len(rows))}\n{type_lines(rows)}"


def types_used(turn: RulesTurn) -> str:
    """Returns the number of nodes of each type in the graph."""
    rows = turn.read("read_graph_overview").rows("types")
    used = [f"{code(cell(row.get('type')))}: {row.get('nodes')}" for row in rows]
    return f"{turn.say('types', count=len(rows))}\n{bullets(used)}"


def count(turn: RulesTurn) -> str:
    """Returns the number of nodes: of a type, on a sheet, or of the graph with its edges and
    sheets.
    """
    if not {"type", "sheet"} & turn.request.spans.keys():
        return sizes(turn, turn.read("read_graph_overview"))
    return list_nodes(turn).partition(":\n")[0] + "."


def list_nodes(turn: RulesTurn) -> str:
    """Returns the list of nodes of a type, on a sheet, or in the graph."""
    rows, more, of = _selected_nodes(turn)
    return f"{turn.say('count_of', count=f'{len(rows)}{more}', of=of)}:\n{bullets(list(map(cite_row, rows)))}"


def _selected_nodes(turn: RulesTurn) -> tuple[tuple[Row, ...], str, str]:
    """Returns the nodes of the named type and sheet, the number of further ones, and the
    description of the selection.
    """
    kind = turn.request.mention("type")
    sheet = turn.request.text("sheet")
    key = the_type(turn, kind, asked=True) if kind else ""
    answer = turn.checked(turn.read_all(listing(LISTED, typeKey=key, sheetId=sheet))[0])
    more = next((match["count"] for note in answer.notes if (match := _LEFT.match(note))), "")
    of = turn.say("of_type", type=code(key)) if key else ""
    of += turn.say("on_sheet", sheet=plain(sheet, 80)) if sheet else ""
    return answer.rows("found"), f" + {more}" if more else "", of


def all_keys(turn: RulesTurn) -> tuple[list[str], str]:
    """Returns the nodes of the named sheet or of the graph, and the description of the selection.

    Ends the handler if there are none or too many.
    """
    rows, more, of = _selected_nodes(turn)
    if more or not rows:
        turn.stop(turn.say("too_many_to_list" if more else "no_nodes", listed=len(rows), of=of))
    return list(map(key_of, rows)), of


def list_values(turn: RulesTurn) -> str:
    """Lists the nodes with a credential, model or the like, with their values, those that match the
    question first.

    If there are none, the pattern may ask for the node types instead.
    """
    kinds = turn.request.options["kind"].split(",")
    words = asked_words(turn)
    lines: list[str] = []
    answers = turn.read_all(*(listing(LISTED, holds=kind) for kind in kinds))
    for kind, answer in zip(kinds, answers, strict=True):
        by_value: dict[str, list[Row]] = {}
        for row in sorted(answer.rows("found"), key=lambda row: -len(words & _all_words(row))):
            value = cell(row.get("holds"))
            value = clock_words(turn.language, value) if kind == "schedule" else value
            by_value.setdefault(value, []).append(row)
        shown = [_value_line(turn, value, rows) for value, rows in by_value.items()][:SHOWN_VALUES]
        lines += [turn.say(f"values_{kind}"), bullets(shown)] if shown else []
    if lines:
        return "\n".join(lines)
    if kinds == ["schedule"]:
        starts = turn.read("read_graph_overview").rows("entry_points")
        return turn.say("no_schedule") + (
            " " + turn.say("starts_at", nodes=_cited(starts)) if starts else ""
        )
    if turn.request.options.get("types"):  # node types are often named after the value
        return f"{turn.say('no_values')} {types_used(turn)}"
    raise NotNamed(turn.say("no_values"))


def clock_words(language: Language, schedule: str) -> str:
    """Returns the description of a schedule in the language; a cron expression is unchanged."""
    for pattern, words in grammar(language).clock.items():
        schedule = re.sub(pattern, words, schedule)
    return schedule


def _value_line(turn: RulesTurn, value: str, rows: Sequence[Row]) -> str:
    serves = list(dict.fromkeys(key for row in rows for key in cell(row.get("serves")).split()))
    used = (
        f" ({turn.say('used_by_short', nodes=', '.join(map(cite, serves[:3])))})" if serves else ""
    )
    return (f"{code(value, 600)}: " if value else "") + _cited(rows) + used


def _all_words(row: Row) -> set[str]:
    return set(
        tokenize(" ".join(cell(row.get(name)) for name in ("name", "_key", "holds", "serves")))
    )


def asked_words(turn: RulesTurn) -> set[str]:
    """Returns the stems of the words in the question, also in English."""
    return {token for word in words_asked(turn) for token in tokenize(word)}


def words_asked(turn: RulesTurn) -> list[str]:
    """Returns the words of the request without the common ones, also in English."""
    common = [word for language in LANGUAGES for word in grammar(language).listed("common")]
    common_stems = {token for word in common for token in tokenize(word)}
    request = turn.request.part or turn.conversation.question
    words = [
        word
        for word in _WORD.findall(request[:MAX_QUERY])
        if not common_stems.issuperset(tokenize(word))
    ]
    return list(dict.fromkeys([*words, *(english(word) for word in words)]))


def search(turn: RulesTurn) -> str:
    """Returns the best matching nodes, matching notes, and the path between the nodes."""
    query = " ".join(words_asked(turn))[:MAX_QUERY]
    limit = SHOWN_OF_MANY if turn.request.options.get("many") else SHOWN
    results = (
        turn.read("search_nodes", query=query, maxResults=12).rows("found") if query.strip() else ()
    )
    hits = [row for row in results if _is_hit(row, turn)]
    if not hits:
        return turn.say("nothing_found", query=code(turn.conversation.question[:120]))
    nodes = [row for row in hits if row.get("type") not in NOTES][:limit]
    notes = [row for row in hits[:limit] if row.get("type") in NOTES][:SHOWN_NOTES]
    keys = list(map(key_of, nodes[:SHOWN]))
    links = links_of(turn.read_all(*(around(key, REACH, "out", 100) for key in keys)))
    ways = [way for end in keys for start in keys if (way := path_line(links, start, end))]
    between = f"\n{turn.say('way_between')}\n{max(ways, key=len)}" if ways else ""
    stems = asked_words(turn)
    with_values = [(row, cell(row.get("holds"))) for row in (*nodes, *notes)]
    lines = [
        cite_row(row) + (f": {code(text)}" if stems & set(tokenize(text)) else "")
        for row, text in with_values
    ]
    return f"{turn.say('found')}\n{bullets(lines)}{between}"


def _is_hit(row: Row, turn: RulesTurn) -> bool:
    """Returns whether a node matched by its words or its vector, not only by its neighbours."""
    why = set(cell(row.get("why")).split("+"))
    return row.get("score") != "weak" and (
        "vector" in why or bool(asked_words(turn) & _all_words(row))
    )


def list_sets(turn: RulesTurn, tool: str, question: str = "") -> str:
    """Lists all nodes of the sets that a question asks for; empty if it asks for none.

    `tool` searches the graph or all graphs. `question`: by default the person's.
    """
    question = (question or turn.request.part or turn.conversation.question).strip()
    if not asks_for_set(question):
        return ""
    # Types and values usually have English names.
    words = dict.fromkeys(english(word) for word in _WORD.findall(question))
    query = " ".join([question, *(word for word in words if word not in fold(question))])[
        :MAX_QUERY
    ]
    answer = turn.read(tool, query=query, **({} if tool == SEARCH_ALL else {"maxResults": 1}))
    return "\n\n".join(_set_lines(turn, one, answer) for one in answer.rows("sets"))


def list_unconnected(turn: RulesTurn) -> str:
    """Lists the nodes without edges. In a graph that is too large for lists, the
    overview has them.
    """
    return list_sets(turn, "search_nodes", "which nodes are unconnected") or describe_graph(turn)


def asks_everywhere(turn: RulesTurn) -> bool:
    """Returns whether a question is about all graphs, and they can be searched."""
    asked = grammar(turn.language).word("all_graphs").search(fold(turn.conversation.question))
    return asked is not None and SEARCH_ALL in turn.offered


def _set_lines(turn: RulesTurn, one: Row, answer: ToolTables) -> str:
    rows = [row for row in answer.rows("complete") if row.get("set") == one.get("set")]
    kind = cell(one.get("kind"))
    value = cell(one.get("value"))
    count = int(one.get("nodes") or 0)
    text_name = f"set_{kind}" if not value or kind == "setting" else "set_named"
    heading = turn.say(text_name, count=count, all=one.get("of"), value=code(value))
    lines = [_node(row) if row.get("graph") else cite_row(row) for row in rows]
    more = [turn.say("set_more", count=count - len(rows))] if count > len(rows) else []
    return "\n".join(
        [heading + (":" if lines else "."), *([bullets(lines)] if lines else []), *more]
    )


# All graphs of a workspace


def used_where(turn: RulesTurn) -> str:
    """Lists the nodes of all graphs that refer to a value. Raises: NotNamed if there are none."""
    value = turn.request.text("value").strip(_QUOTES)
    if not value or SEARCH_ALL not in turn.offered:
        raise NotNamed
    rows = turn.read(SEARCH_ALL, query=value).rows("uses")
    if not rows:
        raise NotNamed
    graphs = len({cell(row.get("graph")) for row in rows})
    lines = [f"{_node(row)}: {code(cell(row.get('field')))}" for row in rows[:SHOWN_USES]]
    return f"{turn.say('used_where', value=code(value), count=len(rows), graphs=graphs)}\n{bullets(lines)}"


def everywhere(turn: RulesTurn) -> str:
    """Lists the nodes of all graphs that match a question best."""
    question = turn.conversation.question.strip()[:900]
    words = " ".join(words_asked(turn)) or question
    results: Sequence[Row] = turn.read(SEARCH_ALL, query=words).rows("found") if words else ()
    if not results:
        return turn.say("nothing_found", query=code(question[:120]))
    lines = [f"{_node(row)}: {plain(cell(row.get('holds')), 160)}" for row in results]
    return f"{turn.say('found_everywhere')}\n{bullets(lines)}"


def _node(row: Row) -> str:
    graph = cell(row.get("graph"))
    link = code(graph) if set("{}|\n") & set(graph) else f"{{{{graph:{graph}}}}}"
    return f"{link} · {plain(cell(row.get('name')), 80)}"

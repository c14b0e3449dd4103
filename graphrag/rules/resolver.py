"""Finds the node or type that a person names, and asks back if the name is ambiguous."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from datasources.text import fold, letters, tokenize
from graphrag.i18n import LANGUAGES
from graphrag.rules.markup import bullets, cite_row, code, plain
from graphrag.rules.normalized_text import EntityMention
from graphrag.rules.patterns import grammar
from graphrag.rules.turn_state import GraphNamed, NotNamed, RulesTurn, call
from tools.answer_tables import Row, cell, key_of

MAX_NEAR, MAX_MATCHES = 5, 4
_NAMES = ("_key", "name")
_TYPE_NAMES = ("type", "name")
# Types of annotations on the canvas, which are not part of the flow.
NOTES = frozenset(("note", "group"))

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")

_KEY = re.compile(r"\S*[\d_.:-]\S*")  # Possible keys: without spaces, and not of letters only.


def the_nodes(turn: RulesTurn, *mentions: EntityMention | None) -> list[str]:
    """Returns the key of the node of each mention, for a change; may end the handler with a
    question.
    """
    texts = [mention.text for mention in mentions if mention is not None]
    rows = _read_rows(turn, list(dict.fromkeys(texts))[:9])
    named = [_steps_first(fitting(text, rows, _NAMES)) for text in texts]
    unclear = [
        _clarification(turn, text, rows, one)
        for text, one in zip(texts, named, strict=True)
        if len(one) != 1
    ]
    if unclear:
        turn.stop("\n".join([*unclear, turn.say("nothing_proposed")]))
    return [key_of(row) for (row,) in named]


def asked_node(turn: RulesTurn) -> str:
    """Returns the key of the node of a question; may end the handler with a question.

    Raises: NotNamed, GraphNamed.
    """
    rows = matching_nodes(turn, "node")
    if len(rows) > 1:
        mention = turn.request.mention("node")
        turn.stop(_clarification(turn, mention.text if mention else "", {}, rows))
    return key_of(rows[0])


def matching_nodes(turn: RulesTurn, slot: str, *, nearby: bool = False) -> list[Row]:
    """Returns the nodes that a slot of a question may refer to; `nearby`: also those with half of
    its words.

    Accepts similar names, since a question changes nothing. Raises: NotNamed, GraphNamed.
    """
    mention = turn.request.mention(slot)
    if mention is None:
        raise NotNamed
    text = mention.text
    whole = turn.request.text(slot)
    is_graph = letters(turn.conversation.graph_name) in (letters(text), letters(whole))
    if is_graph and len(whole.split()) > 1:  # a single word may be a node's name as well
        raise GraphNamed
    rows = _read_rows(turn, [text])
    steps = _steps_first(fitting(text, rows, _NAMES))
    named = _plainest(steps, text) or steps or _end_nodes(turn, text) or _alike(text, rows, 0.82)
    named = named or (_steps_first(near(text, rows, _NAMES)) if nearby else [])
    if named:
        return named[:MAX_MATCHES]
    if is_graph:
        raise GraphNamed
    raise NotNamed(_clarification(turn, text, rows, []) if mention.quoted else "")


def _end_nodes(turn: RulesTurn, text: str) -> list[Row]:
    """Returns the first or last nodes of the graph, if the text is a word for them."""
    for word, rows in (("first_step", "entry_points"), ("last_step", "ends")):
        if grammar(turn.language).word(word).fullmatch(fold(text)):
            return list(turn.read("read_graph_overview").rows(rows))
    return []


def _read_rows(turn: RulesTurn, names: Sequence[str]) -> dict[str, Row]:
    """Returns the nodes that may have these names, by key.

    Reads a node by its key only if the search does not find it, since a failed read is shown to
    people as an error.
    """
    words = [
        " ".join(dict.fromkeys([name, *map(english, _WORD.findall(fold(name)))])) for name in names
    ]
    searches = turn.read_all(
        *(call("search_nodes", query=query[:900], maxResults=20) for query in words)
    )
    rows = {key_of(row): row for answer in searches for row in answer.rows("found")}
    keys = [name for name in names if _KEY.fullmatch(name) and not fitting(name, rows, _NAMES)]
    if keys:
        (read,) = turn.read_all(
            call("read_subgraph", nodeKeys=list(dict.fromkeys(keys)), fields=["position"])
        )
        rows |= {key_of(row): row for row in read.rows("nodes")}
    return rows


def _clarification(
    turn: RulesTurn, text: str, rows: Mapping[str, Row], named: Sequence[Row], kind: str = "nodes"
) -> str:
    """Returns the question which row is intended; `kind`: nodes or types."""
    shown = named[:10] or near(text, rows, _NAMES if kind == "nodes" else _TYPE_NAMES)
    text_name = f"several_{kind}" if named else f"near_{kind}" if shown else f"no_such_{kind}"
    lines = bullets(list(map(cite_row, shown))) if kind == "nodes" else type_lines(shown)
    return f"{turn.say(text_name, name=code(text))}\n{lines}".strip()


def _steps_first(rows: Sequence[Row]) -> list[Row]:
    """Returns the rows that are not notes; the notes if there are no other rows."""
    return [row for row in rows if row.get("type") not in NOTES] or list(rows)


def _plainest(rows: Sequence[Row], text: str) -> list[Row]:
    """Returns the row whose name contains all words and, if several do, fewest others (at most
    one).
    """
    wanted = words_of(text)
    names = [words_of(cell(row.get("name")) or key_of(row)) for row in rows]
    by_extra_words = sorted(
        (len(name - wanted), at) for at, name in enumerate(names) if wanted <= name
    )
    is_unclear = len(by_extra_words) > 1 and (
        by_extra_words[0][0] > 1 or by_extra_words[0][0] == by_extra_words[1][0]
    )
    return [] if is_unclear else [rows[at] for _, at in by_extra_words[:1]]


def fitting(text: str, rows: Mapping[str, Row], names: Sequence[str]) -> list[Row]:
    """Returns the row with this key, else those with this name, exact or similar, else those with
    all its words.

    `names`: the columns with names. The words may also be in the type.
    """
    if text in rows:
        return [rows[text]]
    alike = {letters(spelling) for spelling in (text, english(fold(text)))} - {""}
    named = [
        row for row in rows.values() if alike & {letters(cell(row.get(name))) for name in names}
    ]
    named = [
        row for row in named if fold(text) in {fold(cell(row.get(name))) for name in names}
    ] or named
    wanted = words_of(text)
    return named or [row for row in rows.values() if wanted and wanted <= _words_in(row, names)]


def near(text: str, rows: Mapping[str, Row], names: Sequence[str]) -> list[Row]:
    """Returns rows with a similar name, then those with half of its words."""
    close = _alike(text, rows, 0.6, names)
    wanted = words_of(text)
    sharing = [
        row for row in rows.values() if 0 < len(wanted) <= 2 * len(wanted & _words_in(row, names))
    ]
    return list({id(row): row for row in (*close, *sharing)}.values())[:MAX_NEAR]


def _alike(
    text: str, rows: Mapping[str, Row], least: float, names: Sequence[str] = _NAMES
) -> list[Row]:
    spelt = {letters(cell(row.get(name))): row for row in rows.values() for name in names}
    return [
        spelt[name]
        for name in difflib.get_close_matches(letters(text), list(spelt), MAX_NEAR, least)
    ]


def _words_in(row: Row, names: Sequence[str]) -> set[str]:
    return words_of(" ".join(cell(row.get(name)) for name in (*names, "type")))


def words_of(text: str) -> set[str]:
    """Returns the stems of the words of a name without articles, in English if known. Keeps a final
    `y`, which the stemmer would replace.
    """
    small = {word for language in LANGUAGES for word in grammar(language).listed("small")} | {"s"}
    words = [
        english(word) for word in _WORD.findall(fold(_HUMP.sub(" ", text))) if word not in small
    ]
    return {stem for word in words for stem in ([word] if word.endswith("y") else tokenize(word))}


def english(word: str) -> str:
    """Returns the English word that node names use for a word, else the word, folded."""
    low = fold(word)
    for language in LANGUAGES:
        rules = grammar(language)
        forms = (low, *(low.removesuffix(ending) for ending in rules.listed("endings")))
        if translation := next(
            (rules.english[form] for form in forms if form in rules.english), None
        ):
            return translation
    return low


def read_types(turn: RulesTurn) -> tuple[Row, ...]:
    """Returns the types of the workspace, the most used first."""
    return turn.read("list_available_node_types", maxResults=100).rows("types")


def the_type(turn: RulesTurn, mention: EntityMention | None, *, asked: bool = False) -> str:
    """Returns the key of a mentioned type; may end the handler with a question.

    Raises: NotNamed if `asked` and the name is unknown or ambiguous.
    """
    rows = {cell(row.get("type")): row for row in read_types(turn)}
    if mention is None:
        turn.stop(f"{turn.say('which_type')}\n{type_lines(list(rows.values())[:15])}")
    named = fitting(mention.text, rows, _TYPE_NAMES)
    if len(named) == 1:
        return cell(named[0].get("type"))
    question = _clarification(turn, mention.text, rows, named, "types")
    if asked:
        raise NotNamed(question if named or mention.quoted else "")
    return turn.stop(question)


def type_lines(rows: Sequence[Row]) -> str:
    """Returns a line for each type."""
    return bullets(
        [f"{code(cell(r.get('type')))}: {plain(cell(r.get('description')), 160)}" for r in rows]
    )

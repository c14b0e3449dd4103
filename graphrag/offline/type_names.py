"""Finds the type or the sheet that a person names; where it is not clear which, it says so."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from graphrag.offline.desk import Call, CannotGoOn, Desk
from graphrag.offline.names import ENGLISH, MAX_NEAR, words_of, words_said
from graphrag.offline.readings import Reading, Row, cell
from graphrag.offline.shown import bullets, code, plain
from graphrag.offline.wording import Mention, fold, letters


def find_type(mention: Mention, rows: Sequence[Row]) -> Row | list[Row]:
    """Return the type that is meant, or those that may be (none: nothing is near)."""
    wanted, spelt = fold(mention.text), {letters(mention.text)}
    spelt |= {letters(ENGLISH.get(word, word)) for word in (wanted, wanted.removesuffix("s"))}
    named = [row for row in rows if mention.text == cell(row.get("type"))]
    named = named or [
        row for row in rows if spelt & {letters(cell(row.get("type"))), letters(cell(row.get("name")))}
    ]
    if not named:
        words = words_said(mention.text)
        of_type = [(row, words_of({"type": row.get("type"), "name": row.get("name")})) for row in rows]
        named = [row for row, own in of_type if words and words <= own]
    if len(named) == 1:
        return named[0]
    if named:
        return named[:10]
    texts = {letters(cell(row.get(name))): row for row in rows for name in ("type", "name")}
    near = difflib.get_close_matches(letters(mention.text), list(texts), n=MAX_NEAR, cutoff=0.6)
    return list({cell(texts[text].get("type")): texts[text] for text in near}.values())


def the_type(desk: Desk, mention: Mention | None, rows: Sequence[Row]) -> Row:
    """Return the type of a mention. Raises: CannotGoOn with a question back."""
    found: Row | list[Row] = find_type(mention, rows) if mention is not None else []
    if not isinstance(found, list):
        return found
    name = code(mention.text) if mention else ""
    if found:
        ask = f"{desk.say('near_types', name=name)}\n{type_lines(found)}"
    elif mention is not None:
        ask = f"{desk.say('no_such_type', name=name)}\n{type_lines(rows[:15])}"
    else:
        ask = f"{desk.say('which_type')}\n{type_lines(rows[:15])}"
    raise CannotGoOn(ask)


def type_lines(rows: Sequence[Row]) -> str:
    return bullets([type_line(row) for row in rows])


def type_line(row: Row) -> str:
    name, description = cell(row.get("name")), cell(row.get("description"))
    shown = code(cell(row.get("type")))
    if name and letters(name) != letters(cell(row.get("type"))):
        shown += f" {plain(name, 80)}"
    return f"{shown}: {plain(description, 160)}" if description else shown


def the_sheet(desk: Desk, mention: Mention, overview: Reading) -> str:
    """Return the label of a sheet, as `0 main`. Raises: CannotGoOn with a question back."""
    labels = [cell(row.get("sheet")) for row in overview.rows("sheets")]
    wanted = letters(mention.text)
    for label in labels:
        number, _, name = label.partition(" ")
        if mention.text in (label, number, name) or (wanted and wanted in (letters(name), letters(label))):
            return label
    near = [label for label in labels if wanted and wanted in letters(label)]
    if len(near) == 1:
        return near[0]
    shown = bullets([plain(label, 80) for label in (near or labels)[:20]])
    raise CannotGoOn(f"{desk.say('no_such_sheet', name=code(mention.text))}\n{shown}")


def sheet_row(overview: Reading, label: str) -> Row:
    """Return the row of a sheet in the overview."""
    none: Row = {}
    return next((row for row in overview.rows("sheets") if cell(row.get("sheet")) == label), none)


def read_types(desk: Desk) -> tuple[Row, ...]:
    """Return the types of the workspace, the most used first. Raises: Needs, CannotGoOn."""
    return desk.read("list_available_node_types", limit=100).rows("types")


def overview_and_types(desk: Desk) -> tuple[Reading, tuple[Row, ...]]:
    """Return the overview and the types, asked at once. Raises: Needs, CannotGoOn."""
    arguments: dict[str, Any] = {"limit": 100}
    overview, types = desk.read_all(
        Call(name="read_graph_overview", arguments={}),
        Call(name="list_available_node_types", arguments=arguments),
    )
    return overview, types.rows("types")

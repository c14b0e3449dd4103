"""Reads commands about places, English and French: move a node, tidy a layout."""

from __future__ import annotations

import re
from typing import Literal

from graphrag.offline.forms import SHEET, THE, Form, Match, form
from graphrag.offline.intents import Incomplete, Intent, Move, Tidy
from graphrag.offline.wording import Mention, words

_MOVE = (
    r"(?:move|shift|drag|place|put|deplace[rz]?|bouge[rz]?|decale[rz]?|place[rz]?|pousse[rz]?|mets|mettre"
    r"|mettez)"
)
_TIDY = (
    r"(?:tidy(?: up)?|clean up|re-?arrange|arrange|reorgani[sz]e|organi[sz]e|lay ?out|auto[- ]?layout|align"
    r"|redo"
    r"|range[rz]?|reorganise[rz]?|organise[rz]?|re-?arrange[rz]?|dispose[rz]?|aligne[rz]?|ordonne[rz]?"
    r"|(?:mets|mettre|remets) de l'ordre(?: dans)?)"
)
_NUMBER = r"[-+]?\d{1,8}(?:\.\d{1,4})?"
Where = Literal["right", "left", "up", "down"]
_SIDES: dict[str, Where] = {
    "right": "right", "droite": "right", "left": "left", "gauche": "left",
    "up": "up", "above": "up", "over": "up", "haut": "up", "dessus": "up", "upwards": "up", "on top": "up",
    "down": "down", "below": "down", "under": "down", "beneath": "down", "underneath": "down", "bas": "down",
    "dessous": "down", "sous": "down", "downwards": "down",
}  # fmt: skip
_BESIDE = (
    r"(?:(?:to|on|at) the (?P<s1>right|left) (?:side )?of|(?P<s2>right|left) of"
    r"|(?:just |right )?(?P<s3>below|under|beneath|underneath|above|over|on top)(?: of)?"
    r"|a (?:la )?(?P<s4>droite|gauche) (?:de la|de l'|de|du|d')"
    r"|(?P<s6>next to|beside|a cote (?:de la|de l'|de|du|d'))"
    r"|(?:en[- ]|au[- ]|juste )*(?P<s5>dessous|dessus|sous)(?: de la| de l'| de| du| d')?)(?: |(?<='))"
)
_TOWARDS = (
    r"(?:(?:to|towards) the |vers (?:la |le |l')?|a |en )?"
    r"(?P<s>right|left|up|down|upwards|downwards|droite|gauche|haut|bas)"
)
_STRATEGY = re.compile(
    r"[ ,]*(?:from )?(?:(?P<down>top[- ]to[- ]bottom|top[- ]down|vertical(?:ly|ement)?|(?:de )?haut en bas)"
    r"|(?P<right>left[- ]to[- ]right|horizontal(?:ly|ement)?|(?:de )?gauche a droite))"
)
_SHEET_ONLY = re.compile(rf".*\b{SHEET} (?P<sheet>.+)")
_FILLER = words(
    "graph graphe workflow flow flux pipeline diagram schema node nodes noeud noeuds up the this my of all"
    " everything layout whole it positions la le les l' ce tout tous mon de du des dans disposition mise en"
    " page placement automatically automatiquement bien"
)
_AND = re.compile(r"\s*(?:,|;|\band\b|\bet\b)\s*")


def _move(match: Match) -> Intent | None:
    node = match.mention("a")
    if node is None:
        return Incomplete(kind="move")
    sheet = match.mention("sheet")
    if sheet is not None:
        return Move(node=node, sheet=sheet)
    if match.word("x"):
        return Move(node=node, point=(float(match.word("x")), float(match.word("y"))))
    named = next((w for w in (match.word(f"s{i}") for i in range(1, 6)) if w), match.word("s"))
    side = "right" if match.word("s6") else _SIDES.get(named)
    other = match.mention("b")
    if side is None:
        return None
    distance = float(match.word("d")) if match.word("d") else None
    return Move(node=node, side=side, other=other, distance=distance)


def _tidy(match: Match) -> Intent | None:
    rest = match.word("rest")
    strategy = _STRATEGY.search(rest)
    start, end = match.found.span("rest")
    if strategy is not None:
        end = start + strategy.start()
    found = _SHEET_ONLY.fullmatch(match.wording.folded, start, end)
    how = "top_down" if strategy is not None and strategy["down"] else "left_to_right"
    if found is not None:
        return Tidy(sheet=match.wording.mention(found, "sheet"), strategy=how)
    if _FILLER.issuperset(match.wording.folded[start:end].replace(",", " ").replace("'", "' ").split()):
        return Tidy(strategy=how)
    named: list[Mention] = []
    at = start
    for separator in [*_AND.finditer(match.wording.folded, start, end), None]:
        stop = separator.start() if separator else end
        part = re.compile(r"\s*(?P<n>.*)").fullmatch(match.wording.folded, at, stop)
        mention = match.wording.mention(part, "n") if part else None
        if mention is not None:
            named.append(mention)
        at = separator.end() if separator else end
    return Tidy(nodes=tuple(named), strategy=how) if named else None


MOVE_FORMS: list[Form] = [
    form(rf"{_MOVE} (?P<a>.+?) (?:to|on|onto|in|into|sur|vers|dans|a) {THE}{SHEET} (?P<sheet>.+)", _move),
    form(
        rf"{_MOVE} (?P<a>.+?) (?:to|at|en|a|vers|sur|in)? ?(?:la )?(?:position|coordinates|point)? ?\(?(?:x"
        rf" ?=? ?)?"
        rf"(?P<x>{_NUMBER}) ?[,; ] ?(?:y ?=? ?)?(?P<y>{_NUMBER})\)?",
        _move,
    ),
    form(rf"{_MOVE} (?P<a>.+?) {_BESIDE}(?P<b>.+)", _move),
    form(rf"{_MOVE} (?P<a>.+?) (?:by |de )?(?P<d>\d{{1,6}}) ?(?:px|pixels?|units?)? {_TOWARDS}", _move),
    form(
        rf"{_MOVE} (?P<a>.+?) {_TOWARDS}(?: (?:by|de|of) (?P<d>\d{{1,6}}))?(?: ?(?:px|pixels?|units?))?",
        _move,
    ),
]
TIDY_FORMS: list[Form] = [form(rf"{_TIDY}(?P<rest> .*|)", _tidy)]
LATE_MOVE_FORMS: list[Form] = [
    form(
        r"(?:move|shift|drag|deplace[rz]?|bouge[rz]?|decale[rz]?)(?: .*)?", lambda _: Incomplete(kind="move")
    )
]
"""A move of which no place was understood."""

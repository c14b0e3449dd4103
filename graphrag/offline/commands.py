"""Reads imperatives, English and French, as commands."""

from __future__ import annotations

import re

from graphrag.offline.creations import read_creation
from graphrag.offline.forms import EDGE, GRAPH, NODE, QUOTE, SHEET, Form, Match, Spoken, first_fit, form
from graphrag.offline.intents import (
    Command,
    Connect,
    DeleteEdge,
    DeleteNodes,
    Help,
    Incomplete,
    Intent,
    Move,
    Rename,
    SetField,
    Tidy,
)
from graphrag.offline.wording import Mention, read_wording

_CONNECT = (
    r"(?:connect|link|wire|join|attach|hook up|relie[rz]?|connecte[rz]?|branche[rz]?|lie[rz]?|raccorde[rz]?)"
)
_DISCONNECT = (
    r"(?:disconnect|unlink|unplug|detach|deconnecte[rz]?|delie[rz]?|debranche[rz]?|detache[rz]?|separe[rz]?)"
)
_DELETE = r"(?:delete|remove|erase|drop|get rid of|supprime[rz]?|efface[rz]?|enleve[rz]?|retire[rz]?|detrui(?:re|s|t))"
_RENAME = r"(?:rename|retitle|renomme[rz]?|rebaptise[rz]?)"
_SET = (
    r"(?:set|change|update|modify|edit|replace|mets|mettre|mettez|change[rz]?|modifie[rz]?|remplace[rz]?"
    r"|definis|definir|fixe[rz]?|regle[rz]?|passe[rz]?)"
)
_MOVE = r"(?:move|shift|drag|place|put|deplace[rz]?|bouge[rz]?|decale[rz]?|place[rz]?|pousse[rz]?|mets|mettre|mettez)"
_TIDY = (
    r"(?:tidy(?: up)?|clean up|re-?arrange|arrange|reorgani[sz]e|organi[sz]e|lay ?out|auto-?layout|align|redo"
    r"|range[rz]?|reorganise[rz]?|organise[rz]?|re-?arrange[rz]?|dispose[rz]?|aligne[rz]?|ordonne[rz]?"
    r"|(?:mets|mettre|remets) de l'ordre(?: dans)?)"
)
_NEGATED = re.compile(r"(?:pas|plus|jamais|rien|aucune?|nothing|never|no|not|none)\b")
_EVERYTHING = re.compile(
    rf"(?:all|every|everything|it all|tout|tous|toutes)(?: (?:of )?(?:the|les|le|la))*(?: {NODE}| {EDGE}| {GRAPH})*"
)
_THE = r"(?:(?:the|this|that|an?|le|la|l'|une?|cette|ce|cet) ?)*"
_FIELD = rf"(?:{QUOTE}|[\w$][\w$.-]*(?: [\w$.-]+){{0,2}}?)"
_NUMBER = r"[-+]?\d{1,8}(?:\.\d{1,4})?"
_OUTPUTS = r"(?:output|exit|port|handle|branch|sortie|branche)"
_SIDES = {
    "right": "right", "droite": "right", "left": "left", "gauche": "left",
    "up": "up", "above": "up", "over": "up", "haut": "up", "dessus": "up", "upwards": "up", "on top": "up",
    "down": "down", "below": "down", "under": "down", "beneath": "down", "underneath": "down", "bas": "down",
    "dessous": "down", "sous": "down", "downwards": "down",
}  # fmt: skip
_BESIDE = (
    r"(?:(?:to|on|at) the (?P<s1>right|left) (?:side )?of|(?P<s2>right|left) of|(?:just |right )?(?P<s3>below|under"
    r"|beneath|underneath|above|over|on top)(?: of)?|a (?:la )?(?P<s4>droite|gauche) (?:de la |de l'|de|du|d')"
    r"|(?:en[- ]|au[- ]|juste )*(?P<s5>dessous|dessus|sous)(?: de la| de l'| de| du| d')?) ?"
)
_TOWARDS = r"(?:(?:to|towards) the |vers (?:la |le |l')?|a |en )?(?P<s>right|left|up|down|upwards|downwards|droite|gauche|haut|bas)"
_STRATEGY = re.compile(
    r"[ ,]*(?:from )?(?:(?P<down>top[- ]to[- ]bottom|top[- ]down|vertical(?:ly|ement)?|(?:de )?haut en bas)"
    r"|(?P<right>left[- ]to[- ]right|horizontal(?:ly|ement)?|(?:de )?gauche a droite))"
)
_FILLER = frozenset(
    "graph graphe workflow flow flux pipeline diagram schema node nodes noeud noeuds up the this my of all everything"
    " layout whole it positions la le les l' ce tout tous mon de du des dans disposition mise en page placement"
    " automatically automatiquement bien".split()
)
_AND = re.compile(r"\s*(?:,|;|\band\b|\bet\b)\s*")


def read_command(said: Spoken) -> Command | Help | None:
    """Return the command a message is, or None when it is none."""
    intent: Intent | None = first_fit(said, _FORMS) or read_creation(said) or first_fit(said, _LATE_FORMS)
    return intent if isinstance(intent, Command | Help) else None


def _connect(match: Match) -> Intent | None:
    source, target = match.mention("a"), match.mention("b")
    if source is None or target is None:
        return Incomplete(kind="connect")
    if _NEGATED.match(match.word("a")):
        return None
    source, output = _output_of(source)
    return Connect(source=source, target=target, output=output, label=match.text("label") or None)


_OUTPUT_FORMS = (
    re.compile(rf"(?P<h>.+?) {_OUTPUTS} (?:of|from|de la|de l'|de|du) ?(?P<n>.+)"),
    re.compile(rf"{_OUTPUTS} (?P<h>.+?) (?:of|from|de la|de l'|de|du) ?(?P<n>.+)"),
    re.compile(rf"(?P<n>.+?)(?:'s)? (?P<h>\S+) {_OUTPUTS}"),
    re.compile(r"(?P<n>.+?) \((?P<h>[^()]+)\)"),
)


def _output_of(mention: Mention) -> tuple[Mention, str | None]:
    """Take the output that is named apart from its node: `the error output of X`, `X (error)`."""
    if mention.quoted:
        return mention, None
    wording = read_wording(mention.text)
    for pattern in _OUTPUT_FORMS:
        found = pattern.fullmatch(wording.folded)
        if found is not None:
            match = Match(wording=wording, found=found)
            node, handle = match.mention("n"), match.text("h")
            if node is not None and handle:
                return node, handle
    return mention, None


def _delete(match: Match) -> Intent | None:
    if _NEGATED.match(match.word("a")):
        return None
    node = match.mention("a")
    if node is None or (not node.quoted and _EVERYTHING.fullmatch(match.word("a"))):
        return Incomplete(kind="delete")
    return DeleteNodes(node=node)


def _delete_edge(match: Match) -> Intent | None:
    source, target = match.mention("a"), match.mention("b")
    if source is not None and target is not None:
        return DeleteEdge(source=source, target=target)
    key = match.mention("key")
    return DeleteEdge(key=key) if key else Incomplete(kind="delete")


def _rename(match: Match) -> Intent | None:
    node, name = match.mention("a"), match.text("v")
    return Rename(node=node, name=name) if node and name else Incomplete(kind="rename")


_NAME_FIELDS = frozenset(("name", "title", "label", "nom", "titre", "libelle", "display name"))


def _set(match: Match) -> Intent | None:
    node, field, value = match.mention("n"), match.text("f"), match.text("v")
    quoted = re.fullmatch(QUOTE, match.word("v")) is not None
    if node is None or not field or (not value and not quoted):
        return Incomplete(kind="set")
    if match.word("f") in _NAME_FIELDS:
        return Rename(node=node, name=value)
    return SetField(node=node, field=field, value=value, quoted=quoted)


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
    side = _SIDES.get(named)
    other = match.mention("b")
    if side is None:
        return None
    distance = float(match.word("d")) if match.word("d") else None
    return Move(node=node, side=side, other=other, distance=distance)  # pyright: ignore[reportArgumentType]


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


_SHEET_ONLY = re.compile(rf".*\b{SHEET} (?P<sheet>.+)")
_TO = r"(?:to|with|and|into|->|=>|a la|a l'|a|au|aux|avec|et|vers|sur)"
_LABEL = r"(?: (?:labell?ed|with (?:the )?label|avec le libelle|libellee?) (?P<label>.+?))?"
_MOVE_FORMS: list[Form] = [
    form(rf"{_MOVE} (?P<a>.+?) (?:to|on|onto|in|into|sur|vers|dans|a) {_THE}{SHEET} (?P<sheet>.+)", _move),
    form(
        rf"{_MOVE} (?P<a>.+?) (?:to|at|en|a|vers|sur|in)? ?(?:la )?(?:position|coordinates|point)? ?\(?(?:x ?=? ?)?"
        rf"(?P<x>{_NUMBER}) ?[,; ] ?(?:y ?=? ?)?(?P<y>{_NUMBER})\)?",
        _move,
    ),
    form(rf"{_MOVE} (?P<a>.+?) {_BESIDE}(?P<b>.+)", _move),
    form(
        rf"{_MOVE} (?P<a>.+?) {_TOWARDS}(?: (?:by|de|of) (?P<d>\d{{1,6}}))?(?: ?(?:px|pixels?|units?))?",
        _move,
    ),
    form(rf"{_MOVE} (?P<a>.+?) (?:by |de )?(?P<d>\d{{1,6}}) ?(?:px|pixels?|units?)? {_TOWARDS}", _move),
]
_FORMS: list[Form] = [
    form(
        rf"{_DELETE} {_THE}{EDGE} (?:going |qui va )?(?:from|between|de|du|d'|entre) ?(?P<a>.+?)"
        rf" (?:to|and|a|au|et|vers|jusqu'a) (?P<b>.+)",
        _delete_edge,
    ),
    form(rf"{_DELETE} {_THE}{EDGE}(?: (?P<key>.+))?", _delete_edge),
    form(rf"{_DELETE} (?P<a>.+)", _delete),
    form(rf"{_DISCONNECT} (?P<a>.+?) (?:from|and|to|de la|de l'|de|du|d'|et|a) ?(?P<b>.+)", _delete_edge),
    form(rf"{_CONNECT} (?:from )?(?P<a>.+?) {_TO} (?P<b>.+?){_LABEL}", _connect),
    form(rf"{_CONNECT}(?: .*)?", lambda _: Incomplete(kind="connect")),
    form(rf"{_RENAME} (?P<a>.+?) (?:to|as|into|en|a|comme) (?P<v>.+)", _rename),
    form(rf"{_RENAME}(?: .*)?", lambda _: Incomplete(kind="rename")),
    *_MOVE_FORMS,
    form(
        rf"{_SET} {_THE}(?:field |value of |property |champ |valeur (?:de |du )|propriete )?(?P<f>{_FIELD})"
        rf" (?:of|on|in|for|de la|de l'|de|du|d'|sur|dans) ?(?P<n>.+?) (?:to|as|=|with|by|a|en|par|sur) (?P<v>.+)",
        _set,
    ),
    form(rf"{_SET} (?P<n>.+?)'s (?:field )?(?P<f>{_FIELD}) ?(?:to|as|=|with) ?(?P<v>.+)", _set),
    form(rf"{_SET} (?P<n>{QUOTE}|[^ .]+)\.(?P<f>[\w$.-]+) ?(?:to|as|=|a|en) ?(?P<v>.+)", _set),
    form(
        rf"(?:in|on|for|dans|sur|pour) (?P<n>.+?),? {_SET} {_THE}(?P<f>{_FIELD}) (?:to|as|=|a|en|par) (?P<v>.+)",
        _set,
    ),
    form(rf"{_TIDY}(?P<rest> .*|)", _tidy),
    form(r"(?:undo|annule[rz]?|defai[ts]|revert)\b.*", lambda _: Help(topic="undo")),
    form(
        r"(?:approve|accept|reject|refuse|approuve[rz]?|accepte[rz]?|rejette[rz]?)\b.*",
        lambda _: Help(topic="decide"),
    ),
]
_LATE_FORMS: list[Form] = [
    form(
        r"(?:move|shift|drag|deplace[rz]?|bouge[rz]?|decale[rz]?)(?: .*)?", lambda _: Incomplete(kind="move")
    ),
    form(rf"{_DELETE}", lambda _: Incomplete(kind="delete")),
    form(
        r"(?:set|change|update|modify|edit|modifie[rz]?|remplace[rz]?)(?: .*)?",
        lambda _: Incomplete(kind="set"),
    ),
]

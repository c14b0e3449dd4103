"""Reads imperatives, English and French, as commands."""

from __future__ import annotations

import re

from graphrag.offline.creations import read_creation
from graphrag.offline.forms import EDGE, GRAPH, NODE, OF, QUOTE, THE, Form, Match, Spoken, first_fit, form
from graphrag.offline.intents import (
    Command,
    Connect,
    DeleteEdge,
    DeleteNodes,
    Help,
    Incomplete,
    Intent,
    Rename,
    SetField,
)
from graphrag.offline.placings import LATE_MOVE_FORMS, MOVE_FORMS, TIDY_FORMS
from graphrag.offline.wording import Mention, Wording

_CONNECT = (
    r"(?:connect|link|wire|join|attach|hook up|relie[rz]?|connecte[rz]?|branche[rz]?|lie[rz]?|raccorde[rz]?)"
)
_DISCONNECT = (
    r"(?:disconnect|unlink|unplug|detach|deconnecte[rz]?|delie[rz]?|debranche[rz]?|detache[rz]?|separe[rz]?)"
)
_DELETE = (
    r"(?:delete|remove|erase|drop|get rid of|supprime[rz]?|efface[rz]?|enleve[rz]?|retire[rz]?"
    r"|detrui(?:re|s|t))"
)
_RENAME = r"(?:rename|retitle|renomme[rz]?|rebaptise[rz]?)"
_SET = (
    r"(?:set|change|update|modify|edit|replace|mets|mettre|mettez|change[rz]?|modifie[rz]?|remplace[rz]?"
    r"|definis|definir|fixe[rz]?|regle[rz]?|passe[rz]?)"
)
_NEGATED = re.compile(r"(?:pas|plus|jamais|rien|aucune?|nothing|never|no|not|none)\b")
_EVERYTHING = re.compile(
    rf"(?:all|every|everything|it all|tout|tous|toutes)(?: (?:of )?(?:the|les|le|la))*(?: {NODE}| {EDGE}|"
    rf" {GRAPH})*"
)
_FIELD = rf"(?:{QUOTE}|[\w$][\w$.-]*(?: [\w$.-]+){{0,2}}?)"
_OUTPUTS = r"(?:output|exit|port|handle|branch|sortie|branche)"


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
    node, output = _output_of(match.wording, match.found.span("a"))
    label = match.text("label") or None
    return Connect(source=node or source, target=target, output=output, label=label)


_OUTPUT_FORMS = (
    re.compile(rf"{THE}(?P<h>.+?) {_OUTPUTS} {OF}(?P<n>.+)"),
    re.compile(rf"{THE}{_OUTPUTS} (?P<h>.+?) {OF}(?P<n>.+)"),
    re.compile(rf"(?P<n>.+?)(?:'s)? (?P<h>\S+) {_OUTPUTS}"),
    re.compile(r"(?P<n>.+?) \((?P<h>[^()]+)\)"),
)


def _output_of(wording: Wording, span: tuple[int, int]) -> tuple[Mention | None, str | None]:
    """Take the output that is named apart from its node: `the error output of X`, `X (error)`."""
    for pattern in _OUTPUT_FORMS:
        found = pattern.fullmatch(wording.folded, *span)
        if found is not None:
            return wording.mention(found, "n"), wording.group(found, "h") or None
    return None, None


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


_TO = r"(?:to|with|and|into|->|=>|a la|a l'|a|au|aux|avec|et|vers|sur)"
_LABEL = r"(?: (?:labell?ed|with (?:the )?label|avec le libelle|libellee?) (?P<label>.+?))?"
_FORMS: list[Form] = [
    form(
        rf"{_DELETE} {THE}{EDGE} (?:going |qui va )?(?:(?:from|between|de la|de|du|entre) |de l'"
        rf"|d')(?P<a>.+?)"
        rf" (?:to|and|a|au|et|vers|jusqu'a) (?P<b>.+)",
        _delete_edge,
    ),
    form(rf"{_DELETE} {THE}{EDGE} (?P<a>.+?) ?(?:->|=>|→) ?(?P<b>.+)", _delete_edge),
    form(rf"{_DELETE} {THE}{EDGE}(?: (?P<key>.+))?", _delete_edge),
    form(rf"{_DELETE} (?P<a>.+?)(?: (?:from|in|of|du|dans|de) {THE}{GRAPH})?", _delete),
    form(rf"{_DISCONNECT} (?P<a>.+?) (?:(?:from|and|to|de la|de|du|et|a) |de l'|d')(?P<b>.+)", _delete_edge),
    form(rf"{_CONNECT} (?:from )?(?P<a>.+?) {_TO} (?P<b>.+?){_LABEL}", _connect),
    form(rf"{_CONNECT}(?: .*)?", lambda _: Incomplete(kind="connect")),
    form(rf"{_RENAME} (?P<a>.+?) (?:to|as|into|en|a|comme) (?P<v>.+)", _rename),
    form(rf"(?:call|name|appelle[rz]?|nomme[rz]?) (?P<a>.+?) (?P<v>{QUOTE})", _rename),
    form(rf"{_RENAME}(?: .*)?", lambda _: Incomplete(kind="rename")),
    *MOVE_FORMS,
    form(
        rf"{_SET} {THE}(?P<f>{_FIELD}) {OF}(?P<n>.+?) (?:from|de) \S+ (?:to|a) (?P<v>.+)",
        _set,
    ),
    form(
        rf"{_SET} {THE}(?P<f>{_FIELD}) (?:from|de) \S+ (?:to|a) (?P<v>.+?) (?:on|in|of|for|sur|dans|de)"
        rf" (?P<n>.+)",
        _set,
    ),
    form(
        rf"{_SET} {THE}(?:field |value of |property |champ |valeur (?:de |du )|propriete )?(?P<f>{_FIELD})"
        rf" {OF}(?P<n>.+?) (?:to|as|=|with|by|a|en|par|sur) (?P<v>.+)",
        _set,
    ),
    form(
        rf"{_SET} {THE}(?P<f>{QUOTE}|[\w$][\w$.-]*)(?: ?= ?| to | a | en )(?P<v>.+?) (?:on|in|for|sur|dans"
        rf"|pour)"
        rf" (?P<n>.+)",
        _set,
    ),
    form(rf"{_SET} (?P<n>.+?)'s (?:field )?(?P<f>{_FIELD}) ?(?:to|as|=|with) ?(?P<v>.+)", _set),
    form(rf"{_SET} (?P<n>{QUOTE}|[^ .]+)\.(?P<f>[\w$.-]+) ?(?:to|as|=|a|en) ?(?P<v>.+)", _set),
    form(
        rf"(?:in|on|for|dans|sur|pour) (?P<n>.+?),? {_SET} {THE}(?P<f>{_FIELD}) (?:to|as|=|a|en|par)"
        rf" (?P<v>.+)",
        _set,
    ),
    *TIDY_FORMS,
    form(r"(?:undo|annule[rz]?|defai[ts]|revert)\b.*", lambda _: Help(topic="undo")),
    form(
        r"(?:approve|accept|reject|refuse|approuve[rz]?|accepte[rz]?|rejette[rz]?)\b.*",
        lambda _: Help(topic="decide"),
    ),
]
_LATE_FORMS: list[Form] = [
    *LATE_MOVE_FORMS,
    form(_DELETE, lambda _: Incomplete(kind="delete")),
    form(
        r"(?:set|change|update|modify|edit|modifie[rz]?|remplace[rz]?)(?: .*)?",
        lambda _: Incomplete(kind="set"),
    ),
]

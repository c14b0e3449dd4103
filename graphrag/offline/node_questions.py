"""Reads questions about nodes, English and French: what one is, its code, what comes around it, paths."""

from __future__ import annotations

import re

from graphrag.offline.forms import GRAPH, OF, QUOTE, Form, Match, form
from graphrag.offline.intents import (
    DescribeGraph,
    DescribeNode,
    FindPath,
    Intent,
    Neighbours,
    ShowCode,
    ShowField,
)

MAX_DEPTH = 3
MAX_NAME_WORDS = 8

SHOW = (
    r"(?:(?:tell|show|give|display|describe|list|print|read|open)(?: me)?(?: about)?"
    r"|(?:montre|donne|affiche|decris|liste|dis|ouvre|lis)(?:z|r|s)?(?:[- ]moi|[- ]nous)?)"
)
EXPLAIN = (
    r"(?:describe|explain|summari[sz]e|present|show(?: me)?|tell me (?:more )?about|what about"
    r"|details (?:of|on|about)"
    r"|(?:decri(?:s|re|vez)|expliqu(?:e[rz]?)|resume[rz]?|presente[rz]?|montre[rz]?"
    r"|detaille[rz]?)(?:[- ]moi)?"
    r"|parle[rz]?(?:[- ]moi)? (?:de|d')|details? (?:de|du|sur)|et)"
)
WHAT_IS = (
    r"(?:what(?:'s| is| are| does| do)|who is|c'est quoi|qu'est[- ]ce (?:que c'est que|que|qu')|que fait|que"
    r" font"
    r"|quel(?:le)?s? (?:est|sont)|a quoi sert|a quoi servent|qui est)"
)
_THIS = r"(?:this|the|that|my|our|ce|cet|le|mon|notre|du|d'un)"
_IS_GRAPH = re.compile(
    rf"(?:(?:what|how|in|inside|dans|about|of|is) )*(?:{_THIS} )?(?:whole |tout )?{GRAPH}"
    r"(?: (?:do|does|is|works?|about|for|like|complete?))*|this|ceci|ca|that"
)
_INDEFINITE = re.compile(r"(?:an?|une?) ")
_VERB_BEHIND = re.compile(r" (?:do|does|for|mean|about)$")
_AFTER = (
    r"(?:after|behind|following|downstream (?:of|from)|apres|en aval (?:de|du|d')|a la suite (?:de|du|d'))"
)
_BEFORE = r"(?:before|preceding|ahead of|upstream (?:of|from)|avant|en amont (?:de|du|d'))"
_ASKS = (
    r"(?:what|which|who|show|list|give|tell|everything|anything|all|any|the|is|are|nodes?|que|qu'|quoi|quel"
    r"|tout"
    r"|tous|noeuds?|montre|liste|donne|y a|il y a|et|steps?|etapes?|see|find|how|combien"
    r"|\d|one|two|three|une?|deux|trois)"
)
_DEEP = re.compile(
    r"\b(?:everything|all|tout|toute|tous|toutes|upstream|downstream|amont|aval|transitive(?:ly|ment)?)\b"
)
_HOPS = re.compile(
    r"\b(?P<n>[1-9]|one|two|three|une?|deux|trois) (?:steps?|levels?|hops?|pas|niveaux?|sauts?|etapes?)\b"
)
_NUMBERS = {"one": 1, "un": 1, "une": 1, "two": 2, "deux": 2, "three": 3, "trois": 3}
_CODE = r"(?:code|process|script|source(?: code)?|javascript|js)"
_WORDS = rf"(?:{QUOTE}|[\w$][\w$.-]*(?: [\w$.-]+)?)"
_WHO = r"(?:what|who|which nodes?|que|qu'est-ce qui|qui|quels? noeuds?)"


def _describe(match: Match) -> Intent | None:
    if _IS_GRAPH.fullmatch(match.word("n").strip()):
        return DescribeGraph()
    node = match.mention("n")
    return DescribeNode(node=node) if node else None


def _what_is(match: Match) -> Intent | None:
    word = _VERB_BEHIND.sub("", match.word("n").strip())
    if _IS_GRAPH.fullmatch(word):
        return DescribeGraph()
    start = match.found.start("n")
    found = re.compile(r"(?P<n>.*)").fullmatch(match.wording.folded, start, start + len(word))
    node = match.wording.mention(found, "n") if found else None
    if node is None or len(node.text.split()) > MAX_NAME_WORDS:
        return None
    return DescribeNode(node=node, indefinite=_INDEFINITE.match(word) is not None)


def _neighbours(match: Match) -> Intent | None:
    node = match.mention("n")
    if node is None:
        return None
    direction = "out" if match.word("after") else "in" if match.word("before") else "any"
    asked = match.wording.folded[match.found.start() : match.found.start("n")]
    hops, depth = _HOPS.search(asked), 1
    if hops is not None:
        depth = _NUMBERS.get(hops["n"]) or int(hops["n"])
    elif _DEEP.search(asked):
        depth = MAX_DEPTH
    return Neighbours(node=node, direction=direction, depth=min(depth, MAX_DEPTH))


def _path(match: Match) -> Intent | None:
    start, end = match.mention("a"), match.mention("b")
    return FindPath(start=start, end=end) if start and end else None


def _code(match: Match) -> Intent | None:
    node = match.mention("n")
    return ShowCode(node=node) if node else None


def _field(match: Match) -> Intent | None:
    node, name = match.mention("n"), match.text("f")
    if node is None or not name or _IS_GRAPH.fullmatch(match.word("n")):
        return None
    return ShowField(field=name, node=node)


_FROM = r"(?:(?:from|between|de la|de|du|entre) |de l'|d')"
PATH_FORMS: list[Form] = [
    form(
        r"(?:is there|are there|y a[- ]t[- ]il|show(?: me)?|find(?: me)?|give me|what is|quel est|trouve"
        r"|montre"
        r"|donne)? ?(?:an?|the|une?|le|la)? ?(?:shortest |plus court )?(?:path|route|way|chemin|trajet"
        r"|parcours"
        rf"|passage) {_FROM}(?P<a>.+?) (?:to|and|a|au|et|vers|jusqu'a) (?P<b>.+)",
        _path,
    ),
    form(
        r"how (?:do|does|can|to) (?:i |you |we |one |it |data )?(?:get|go|flow|come|reach|pass) from"
        r" (?P<a>.+?)"
        r" to (?P<b>.+)",
        _path,
    ),
    form(r"(?:how does|can|does) (?P<a>.+?) (?:reach|get to|lead to|flow (?:in)?to) (?P<b>.+)", _path),
    form(
        r"comment (?:va[- ]t[- ]on|aller|passe[- ]t[- ]on|passer|arrive[- ]t[- ]on) (?:(?:de la|de|du) |de"
        r" l'|d')"
        r"(?P<a>.+?) (?:a|au|vers|jusqu'a) (?P<b>.+)",
        _path,
    ),
    form(r"is (?P<a>.+?) (?:connected|linked) (?:to|with) (?P<b>.+)", _path),
    form(
        r"(?:est-ce que )?(?P<a>.+?) est[- ](?:il |elle )?(?:relie|connecte)e? (?:a|au|avec) (?P<b>.+)",
        _path,
    ),
]
OWN_FORMS: list[Form] = [
    form(
        rf"(?:{SHOW} |what is |what's |what does |quel est |read )?(?:the |le )?{_CODE} {OF}(?P<n>.+?)(?:"
        rf" do)?",
        _code,
    ),
    form(
        rf"(?:what|which|quel) {_CODE} (?:does |is |do |est |a |execute |lance |contient |utilise"
        rf" )+(?P<n>.+?)"
        r"(?: (?:have|has|run|runs|execute|contain|use|in))?",
        _code,
    ),
    form(rf"(?:{SHOW} )?(?P<n>.+?)'s {_CODE}", _code),
    form(rf"{SHOW} (?:the |le )?{_CODE} (?P<n>.+)", _code),
    form(
        rf"(?:{SHOW} |{WHAT_IS} |sur )?(?:which |the |le |la |quel |quelle )?"
        rf"(?P<f>type|sheet|feuille|position|size|taille|name|nom) {OF}(?P<n>.+)",
        _field,
    ),
]
AROUND_FORMS: list[Form] = [
    form(rf"{_WHO} (?P<after>follows?|succeeds?|suit|suivent) (?P<n>.+)", _neighbours),
    form(
        rf"{_WHO} (?P<before>precedes?|precede|precedent|leads? to|calls?|feeds?|triggers?|connects? to"
        r"|goes? (?:in)?to|mene a|appelle|alimente|declenche) (?P<n>.+)",
        _neighbours,
    ),
    form(
        rf"(?:et |and )?(?:{_ASKS}\b.*? ?)?(?:(?P<after>{_AFTER})|(?P<before>{_BEFORE}))(?: "
        rf"|(?<='))(?P<n>.+?)"
        r"(?: (?:run|runs|execute|executes|finish|finishes|s'execute|vient|is there|y a-t-il))?",
        _neighbours,
    ),
    form(
        rf"(?:{_ASKS} ?)*(?:neighbou?rs?|neighbou?rhood|surroundings|connections|links|voisins?|voisinage"
        r"|connexions|liens|(?P<after>successors?|outputs|children|successeurs?|sorties|descendants?)"
        rf"|(?P<before>predecessors?|inputs|parents?|predecesseurs?|entrees|ancestors?)) {OF}(?P<n>.+)",
        _neighbours,
    ),
    form(
        r"(?:what|who|which nodes?) (?:is|are) (?P<n>.+?) (?:connected|linked|wired) (?:to|with)", _neighbours
    ),
    form(
        r"(?:what|which nodes?|who) (?:is|are) (?:connected|linked|next|close|around|near)(?: to)? (?P<n>.+)",
        _neighbours,
    ),
    form(
        rf"{_WHO} (?P<after>depends? on|uses the (?:output|result) of|depend(?:ent)? de) (?P<n>.+)",
        _neighbours,
    ),
    form(
        rf"(?P<before>d'ou (?:viennent|vient)(?: les donnees)?|where does the (?:data|input))"
        rf" (?:{OF})?(?P<n>.+?)"
        r"(?: come from)?",
        _neighbours,
    ),
    form(r"(?:a quoi|avec quoi) est (?:relie|connecte)e? (?P<n>.+)", _neighbours),
    form(rf"{_WHO} (?:est|sont) (?:relie|connecte)e?s? (?:a|au|avec) (?P<n>.+)", _neighbours),
    form(
        r"(?:where does|what does) (?P<n>.+?) (?P<after>go|lead(?: to)?|flow(?: to)?|connect to|send to)",
        _neighbours,
    ),
    form(r"(?P<after>ou (?:va|mene)|vers quoi (?:va|mene)) (?P<n>.+)", _neighbours),
    form(
        rf"(?:{SHOW}|{WHAT_IS}|give me) (?:(?:the|le|la|les) |l')?(?P<f>{_WORDS}) {OF}(?P<n>.+)",
        _field,
    ),
    form(r"(?:what|which) (?P<f>[\w$.-]+) (?:does|do|is|has) (?P<n>.+?)(?: (?:have|use|has|of))?", _field),
    form(rf"(?:what is |what's )(?P<n>.+?)'s (?P<f>{_WORDS})", _field),
]
DESCRIBE_FORMS: list[Form] = [
    form(rf"{EXPLAIN} (?P<n>.+)", _describe),
    form(rf"{WHAT_IS} ?(?P<n>.+?)", _what_is),
]

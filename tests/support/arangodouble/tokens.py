"""AQL text -> tokens, and the words and operators of the language."""

from __future__ import annotations

import re

from tests.support.arangodouble.errors import AqlError

KEYWORDS = frozenset(
    """
    AGGREGATE ALL ALL_SHORTEST_PATHS AND ANY ASC COLLECT DESC DISTINCT FALSE FILTER FOR GRAPH IN INBOUND
    INSERT INTO K_PATHS K_SHORTEST_PATHS LET LIKE LIMIT NONE NOT NULL OR OUTBOUND REMOVE REPLACE RETURN
    SHORTEST_PATH SORT TRUE UPDATE UPSERT WINDOW WITH
    """.split()
)
NEW_KEYWORDS = frozenset(
    """
    INNER_JOIN LEFT_JOIN RIGHT_JOIN OUTER_JOIN MATCH WHILE UNTIL SCAN FOLD
    """.split()
)
"""Reserved from 4.0 on."""

MODIFYING = frozenset({"insert", "update", "replace", "remove", "upsert"})
STATEMENTS = frozenset(
    """
    FOR LET FILTER COLLECT SORT LIMIT WINDOW RETURN INSERT UPDATE REPLACE REMOVE UPSERT
    """.split()
)
DIRECTIONS = {"OUTBOUND", "INBOUND", "ANY"}
QUANTIFIERS = {"ALL", "ANY", "NONE"}
COMPARE = {"==", "!=", "<", "<=", ">", ">="}
BINDING = {
    "?": 10,
    "OR": 20,
    "||": 20,
    "AND": 30,
    "&&": 30,
    "==": 50,
    "!=": 50,
    "LIKE": 50,
    "=~": 50,
    "!~": 50,
    "IN": 60,
    "NOT IN": 60,
    "<": 70,
    "<=": 70,
    ">": 70,
    ">=": 70,
    "..": 80,
    "+": 90,
    "-": 90,
    "*": 100,
    "/": 100,
    "%": 100,
}
OPTIONS = {
    k: set(v.split())
    for k, v in {
        "for": "indexHint forceIndexHint disableIndex maxProjections useCache lookahead",
        "search": "collections conditionOptimization countApproximate parallelism waitForSync",
        "traversal": "order bfs uniqueVertices uniqueEdges edgeCollections vertexCollections parallelism "
        "maxProjections indexHint weightAttribute defaultWeight useCache",
        "path": "weightAttribute defaultWeight useCache indexHint maxProjections edgeCollections "
        "vertexCollections",
        "insert": "ignoreErrors waitForSync overwrite overwriteMode keepNull mergeObjects versionAttribute "
        "exclusive refillIndexCaches ignoreRevs",
        "update": "ignoreErrors keepNull mergeObjects waitForSync ignoreRevs exclusive refillIndexCaches "
        "versionAttribute",
        "remove": "ignoreErrors waitForSync ignoreRevs exclusive refillIndexCaches",
        "upsert": "ignoreErrors keepNull mergeObjects waitForSync ignoreRevs exclusive indexHint "
        "forceIndexHint disableIndex useCache readOwnWrites versionAttribute",
        "collect": "method disableIndex aggregateIntoExpressionOnDBServers",
    }.items()
}
OPTIONS["replace"] = OPTIONS["update"]
AGGREGATES = {
    "LENGTH",
    "COUNT",
    "MIN",
    "MAX",
    "SUM",
    "AVERAGE",
    "AVG",
    "STDDEV_POPULATION",
    "STDDEV",
    "STDDEV_SAMPLE",
    "VARIANCE_POPULATION",
    "VARIANCE",
    "VARIANCE_SAMPLE",
    "UNIQUE",
    "SORTED_UNIQUE",
    "COUNT_DISTINCT",
    "COUNT_UNIQUE",
    "BIT_AND",
    "BIT_OR",
    "BIT_XOR",
    "PUSH",
    "MERGE",
    "UNION",
    "INTERSECTION",
    "UNION_DISTINCT",
}

ELEMENT = "\0element"  # the value a nested expansion a[*].b[*] starts from

_OPERATORS = [
    "..",
    "=~",
    "!~",
    "==",
    "!=",
    ">=",
    "<=",
    "&&",
    "||",
    "::",
    "<",
    ">",
    "=",
    "!",
    "+",
    "-",
    "*",
    "/",
    "%",
    "?",
    ":",
    ",",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ".",
]
_IDENT = re.compile(r"\$?[a-zA-Z][_a-zA-Z0-9]*|_+[a-zA-Z]+[_a-zA-Z0-9]*")
_NUMBER = re.compile(
    r"0[bB][01]+|0[xX][0-9a-fA-F]+|((0|[1-9][0-9]*)(\.[0-9]+)?|\.[0-9]+)([eE][-+]?[0-9]+)?"
)
_BIND = re.compile(r"@@?(_+[a-zA-Z0-9]+[a-zA-Z0-9_]*|[a-zA-Z0-9][a-zA-Z0-9_]*)")
_NOT_IN = re.compile(r"(?i:NOT)\s+(?i:IN)(?![_a-zA-Z0-9])")
_AT_LEAST = re.compile(r"(?i:AT)\s+(?i:LEAST)(?![_a-zA-Z0-9])")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def _unescape(body):
    def one(m):
        t = m.group(1)
        return chr(int(t[1:], 16)) if len(t) == 5 else _ESCAPES.get(t, t)

    s = re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, body, flags=re.S)
    return s.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if "\\u" in body else s


class Tok:
    __slots__ = ("kind", "off", "pos", "quoted", "val")

    def __init__(self, kind, val, pos, off, quoted=False):
        self.kind = kind
        self.val = val
        self.pos = pos
        self.off = off
        self.quoted = quoted


def syntax_error(text, tok, msg=None):
    near = text[tok.off : tok.off + 32].split("\n")[0]
    what = {
        "end": "end of query string",
        "id": "identifier",
        "str": "quoted string",
        "num": "number",
        "bind": "bind parameter",
        "coll": "bind data source parameter",
    }.get(tok.kind, tok.val)
    if tok.kind == "kw" and tok.val in STATEMENTS:
        what = tok.val + " declaration"
    msg = msg or f"syntax error, unexpected {what}"
    if near:
        msg += f" near '{near}'"
    return AqlError(1501, f"AQL: {msg} at position {tok.pos[0]}:{tok.pos[1]} (while parsing)")


def lex(s, keywords=KEYWORDS):
    out = []
    i = 0
    n = len(s)
    line = 1
    bol = 0

    def fail(what):
        raise AqlError(
            1501,
            f"AQL: syntax error, {what} near '{s[i : i + 32]}' at position {line}:{i - bol + 1} "
            "(while parsing)",
        )

    while i < n:
        c = s[i]
        pos = (line, i - bol + 1)
        if c == "\n":
            line = line + 1
            bol = i + 1
            i = i + 1
        elif c in " \t\r":
            i += 1
        elif s.startswith("//", i):
            j = s.find("\n", i)
            i = n if j < 0 else j
        elif s.startswith("/*", i):
            j = s.find("*/", i + 2)
            if j < 0:
                fail("unterminated multi-line comment")
            if "\n" in s[i:j]:
                line = line + s.count("\n", i, j)
                bol = s.rfind("\n", i, j) + 1
            i = j + 2
        elif c in "\"'`´":
            j = i + 1
            while j < n and s[j] != c:
                j += 2 if s[j] == "\\" else 1
            if j >= n:
                fail(
                    "unexpected unterminated " + ("string literal" if c in "\"'" else "identifier")
                )
            body = s[i + 1 : j]
            out.append(Tok("str" if c in "\"'" else "id", _unescape(body), pos, i, True))
            if "\n" in body:
                line = line + body.count("\n")
                bol = i + 1 + body.rfind("\n") + 1
            i = j + 1
        elif c == "@":
            m = _BIND.match(s, i)
            if not m:
                fail("unexpected character '@'")
            t = m.group(0)
            out.append(Tok("coll" if t.startswith("@@") else "bind", t[1:], pos, i))
            i = m.end()
        elif (c.isdigit() and c.isascii()) or (
            c == "." and s[i + 1 : i + 2].isdigit() and not s.startswith("..", i)
        ):
            m = _NUMBER.match(s, i)
            end = m.end()
            # "1..3" is a range: do not take "1." as a float
            out.append(Tok("num", m.group(0), pos, i))
            i = end
        else:
            m = _IDENT.match(s, i)
            if m:
                two = _AT_LEAST.match(s, i) or _NOT_IN.match(s, i)
                t = m.group(0)
                if two:
                    out.append(Tok("kw", " ".join(two.group(0).upper().split()), pos, i))
                    if "\n" in two.group(0):
                        line = line + two.group(0).count("\n")
                        bol = s.rfind("\n", i, two.end()) + 1
                    i = two.end()
                else:
                    out.append(
                        Tok("kw", t.upper(), pos, i)
                        if t.upper() in keywords
                        else Tok("id", t, pos, i)
                    )
                    i = m.end()
                continue
            for op in _OPERATORS:
                if s.startswith(op, i):
                    out.append(Tok("op", op, pos, i))
                    i += len(op)
                    break
            else:
                fail(f"unexpected character {c!r}")
    out.append(Tok("end", "", (line, n - bol + 1), n))
    return out

"""AQL functions of strings."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import urllib.parse
import uuid

from tests.support.arangodouble.function_table import MANY, fn, type_warning
from tests.support.arangodouble.values import analyze, json_text, num, to_number, to_string, truthy


# -- strings --------------------------------------------------------------------------------------
@fn("CONCAT", 1, MANY)
def _concat(ctx, *args):
    if len(args) == 1 and type(args[0]) is list:
        args = args[0]
    return "".join(to_string(a) for a in args)


@fn("CONCAT_SEPARATOR", 2, MANY)
def _concat_separator(ctx, sep, *args):
    if len(args) == 1 and type(args[0]) is list:
        args = args[0]
    return to_string(sep).join(to_string(a) for a in args if a is not None)


@fn("CONTAINS", 2, 3)
def _contains(ctx, text, search, index=False):
    at = to_string(text).find(to_string(search))
    return at if truthy(index) else at >= 0


fn("LOWER", 1)(lambda ctx, v: to_string(v).lower())
fn("UPPER", 1)(lambda ctx, v: to_string(v).upper())
fn("CHAR_LENGTH", 1)(lambda ctx, v: len(to_string(v)))
fn("LEFT", 2)(lambda ctx, v, n: to_string(v)[: max(0, int(to_number(n)))])
fn("RIGHT", 2)(
    lambda ctx, v, n: (lambda s, k: s[max(0, len(s) - k) :] if k > 0 else "")(
        to_string(v), int(to_number(n))
    )
)
fn("REPEAT", 2, 3)(
    lambda ctx, v, n, sep="": to_string(sep).join([to_string(v)] * int(to_number(n)))
)
fn("JSON_STRINGIFY", 1)(lambda ctx, v: json_text(v))
fn("UUID", 0)(lambda ctx: str(uuid.uuid4()))
fn("RANDOM_TOKEN", 1)(lambda ctx, n: secrets.token_hex(int(n))[: int(n)])
fn("ENCODE_URI_COMPONENT", 1)(lambda ctx, v: urllib.parse.quote(to_string(v), safe="!'()*-._~"))
fn("TO_BASE64", 1)(lambda ctx, v: base64.b64encode(to_string(v).encode()).decode())
fn("TO_HEX", 1)(lambda ctx, v: to_string(v).encode().hex())
fn("TO_CHAR", 1)(lambda ctx, v: chr(int(to_number(v))))
for _h in ("MD5", "SHA1", "SHA256", "SHA512"):
    fn(_h, 1)(lambda ctx, v, _h=_h: hashlib.new(_h, to_string(v).encode()).hexdigest())


@fn("JSON_PARSE", 1)
def _json_parse(ctx, v):
    try:
        return json.loads(v, parse_float=lambda s: num(float(s)))
    except (TypeError, ValueError):
        return type_warning(ctx, "JSON_PARSE")


def _trim(ctx, v, kind, left, right):
    chars = None
    if type(kind) is str:
        chars = kind
    elif kind is not None:
        left = left and to_number(kind) in (0, 1)
        right = right and to_number(kind) in (0, 2)
    s = to_string(v)
    s = s.lstrip(chars) if left else s
    return s.rstrip(chars) if right else s


fn("TRIM", 1, 2)(lambda ctx, v, k=None: _trim(ctx, v, k, True, True))
fn("LTRIM", 1, 2)(lambda ctx, v, k=None: _trim(ctx, v, k if type(k) is str else None, True, False))
fn("RTRIM", 1, 2)(lambda ctx, v, k=None: _trim(ctx, v, k if type(k) is str else None, False, True))


@fn("SUBSTRING", 2, 3)
def _substring(ctx, v, offset, length=None):
    s = to_string(v)
    i = int(to_number(offset))
    i = max(0, len(s) + i) if i < 0 else i
    return s[i:] if length is None else s[i : i + max(0, int(to_number(length)))]


@fn("SPLIT", 1, 3)
def _split(ctx, v, sep=None, limit=None):
    s = to_string(v)
    if sep is None:
        return [s]
    seps = [to_string(x) for x in (sep if type(sep) is list else [sep])]
    parts = list(s) if "" in seps else re.split("|".join(map(re.escape, seps)), s)
    if limit is not None and to_number(limit) < 0:
        return type_warning(ctx, "SPLIT")
    return parts if limit is None else parts[: int(to_number(limit))]


@fn("SUBSTITUTE", 2, 4)
def _substitute(ctx, v, search, replace=None, limit=None):
    if type(search) is dict:
        limit = replace
        mapping = {k: to_string(x) for k, x in search.items()}
    else:
        keys = search if type(search) is list else [search]
        to = replace if type(replace) is list else [replace] * len(keys)
        mapping = {
            to_string(k): to_string(to[i]) if i < len(to) else "" for i, k in enumerate(keys)
        }
    if not mapping:
        return to_string(v)
    rx = re.compile("|".join(re.escape(k) for k in mapping))
    return rx.sub(
        lambda m: mapping[m.group(0)],
        to_string(v),
        count=0 if limit is None else int(to_number(limit)) or -1,
    )


def like_regex(pattern, insensitive=False):
    out, i = "", 0
    while i < len(pattern):
        c = pattern[i]
        if c == "\\" and i + 1 < len(pattern) and pattern[i + 1] in "%_\\":
            i += 1
            out += re.escape(pattern[i])
        else:
            out += {"%": ".*", "_": "."}.get(c, re.escape(c))
        i += 1
    return re.compile(out, re.S | (re.I if insensitive else 0))


@fn("LIKE", 2, 3)
def like(ctx, text, pattern, insensitive=False):
    return (
        like_regex(to_string(pattern), truthy(insensitive)).fullmatch(to_string(text)) is not None
    )


def regex(ctx, pattern, insensitive=False):
    try:
        return re.compile(to_string(pattern), re.I if truthy(insensitive) else 0)
    except re.error:
        return ctx.warn(1543, "invalid regex value")


@fn("REGEX_TEST", 2, 3)
def regex_test(ctx, text, pattern, insensitive=False):
    rx = regex(ctx, pattern, insensitive)
    return rx and rx.search(to_string(text)) is not None


@fn("REGEX_MATCHES", 2, 3)
def _regex_matches(ctx, text, pattern, insensitive=False):
    rx = regex(ctx, pattern, insensitive)
    m = rx and rx.search(to_string(text))
    return m and [m.group(0)] + [g or "" for g in m.groups()]


@fn("REGEX_REPLACE", 3, 4)
def _regex_replace(ctx, text, pattern, to, insensitive=False):
    rx = regex(ctx, pattern, insensitive)
    return rx and rx.sub(
        lambda m: m.expand(re.sub(r"\$(\d+)", r"\\g<\1>", to_string(to))), to_string(text)
    )


@fn("REGEX_SPLIT", 2, 4)
def _regex_split(ctx, text, pattern, insensitive=False, limit=None):
    rx = regex(ctx, pattern, insensitive)
    return rx and rx.split(to_string(text), maxsplit=0 if limit is None else int(limit))


@fn("STARTS_WITH", 2, 3)
def _starts_with(ctx, text, prefix, need=1):
    if type(prefix) is list:
        return sum(to_string(text).startswith(to_string(p)) for p in prefix) >= to_number(need)
    return to_string(text).startswith(to_string(prefix))


@fn("FIND_FIRST", 2, 4)
def _find_first(ctx, text, search, start=0, end=None):
    return to_string(text).find(
        to_string(search), int(to_number(start)), None if end is None else int(end) + 1
    )


@fn("FIND_LAST", 2, 4)
def _find_last(ctx, text, search, start=0, end=None):
    return to_string(text).rfind(
        to_string(search), int(to_number(start)), None if end is None else int(end) + 1
    )


@fn("TOKENS", 1, 2)
def tokens(ctx, v, analyzer="identity"):
    if type(v) is list:
        return [tokens(ctx, x, analyzer) for x in v]
    if v is None:
        return []
    return analyze(to_string(v), to_string(analyzer), ctx.analyzers)


def edit_distance(a, b, transpose=True):
    before = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before2 = before
        before = row
        row = [i] + [0] * len(b)
        for j, y in enumerate(b, 1):
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if transpose and i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                row[j] = min(row[j], before2[j - 2] + 1)
    return row[-1]


fn("LEVENSHTEIN_DISTANCE", 2)(lambda ctx, a, b: edit_distance(to_string(a), to_string(b)))


def ngram_similarity(text, search, size):
    def grams(s):
        return [s[i : i + size] for i in range(len(s) - size + 1)]

    a = grams(text)
    b = grams(search)
    row = [0] * (len(b) + 1)  # longest common subsequence of ngrams
    for x in a:
        last = row[:]
        for j, y in enumerate(b, 1):
            row[j] = last[j - 1] + 1 if x == y else max(last[j], row[j - 1])
    return row[-1] / len(b) if b else 0


fn("NGRAM_SIMILARITY", 3)(
    lambda ctx, a, b, n: num(float(ngram_similarity(to_string(a), to_string(b), int(to_number(n)))))
)

"""AQL values: type order, equality, casts, text form, and the text analyzers of this double."""

from __future__ import annotations

import json
import math
import re
import unicodedata

from tests.support.arangodouble.errors import ArangoError, refuse


def num(x):
    """Normalise a computed number: integral doubles print as integers, NaN and
    infinity are null.
    """
    if type(x) is float:
        if x != x or x in (math.inf, -math.inf):
            return None
        if x.is_integer() and abs(x) < 2**53:
            return int(x)
    elif type(x) is int and not -(2**63) <= x < 2**64:
        return float(x)
    return x


def is_num(v):
    return type(v) is int or type(v) is float


def type_rank(v):
    t = type(v)
    if v is None:
        return 0
    if t is bool:
        return 1
    if t is int or t is float:
        return 2
    return 3 if t is str else 4 if t is list else 5


class _ObjectKey:
    """Orders objects: attribute names of both, sorted; the missing one counts as null."""

    __slots__ = ("d",)

    def __init__(self, d):
        self.d = d

    def cmp(self, other):
        for name in sorted(set(self.d) | set(other.d)):
            a = sort_key(self.d.get(name))
            b = sort_key(other.d.get(name))
            if a != b:
                return -1 if a < b else 1
        return 0

    def __lt__(self, other):
        return self.cmp(other) < 0

    def __gt__(self, other):
        return self.cmp(other) > 0

    def __eq__(self, other):
        return self.cmp(other) == 0


def sort_key(v):
    """null < bool < number < string < array < object; strings in code point (C locale) order."""
    r = type_rank(v)
    if r == 0:
        return (0,)
    if r < 4:
        return (r, v)
    if r == 5:
        return (5, _ObjectKey(v))
    items = [sort_key(x) for x in v]
    while items and items[-1] == (0,):
        items.pop()
    return (4, tuple(items))


def compare(a, b):
    ta = type(a)
    tb = type(b)
    if ta is tb and (ta is str or ta is int or ta is float):
        return -1 if a < b else (1 if a > b else 0)
    ka = sort_key(a)
    kb = sort_key(b)
    return 0 if ka == kb else (-1 if ka < kb else 1)


def equal(a, b):
    ta = type(a)
    tb = type(b)
    if ta is str or tb is str or a is None or b is None or ta is bool or tb is bool:
        return ta is tb and a == b
    if is_num(a) or is_num(b):
        return is_num(a) and is_num(b) and a == b
    return compare(a, b) == 0


def hkey(v):
    """A hashable key with the equality of `equal`."""
    if v is None or type(v) is str:
        return v
    r = type_rank(v)
    if r < 3:
        return (r, v)
    if r == 4:
        items = [hkey(x) for x in v]
        while items and items[-1] is None:
            items.pop()
        return (4, tuple(items))
    return (5, tuple(sorted((k, hkey(x)) for k, x in v.items() if x is not None)))


def contains(array, v):
    if type(array) is not list:
        return False
    if type(v) is str:
        return v in array
    return any(equal(v, x) for x in array)


def truthy(v):
    if v is None or v is False or v == "":
        return False
    return not (is_num(v) and v == 0)


def to_number(v):
    t = type(v)
    if t is int or t is float:
        return v
    if v is None:
        return 0
    if t is bool:
        return int(v)
    if t is str:
        s = v.strip()
        try:
            if re.fullmatch(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?", s):
                return num(float(s)) if re.search(r"[.eE]", s) else int(s)
        except (ValueError, OverflowError):
            pass
        return 0
    if t is list and len(v) == 1:
        return to_number(v[0])
    return 0


def number_text(v):
    v = num(v)
    if type(v) is int:
        return str(v)
    if v is None:
        return "null"
    s = repr(v)
    if "e" in s:
        m, e = s.split("e")
        s = f"{m}e{'-' if e[0] == '-' else '+'}{e.lstrip('+-').lstrip('0') or '0'}"
    return s


def json_text(v):
    if type(v) is float:
        return number_text(v)
    return json.dumps(v, ensure_ascii=False, separators=(",", ":"))


def to_string(v):
    if v is None:
        return ""
    t = type(v)
    if t is str:
        return v
    if t is bool:
        return "true" if v else "false"
    if t is int or t is float:
        return number_text(v)
    return json_text(v)


def to_array(v):
    if v is None:
        return []
    if type(v) is list:
        return v
    if type(v) is dict:
        return list(v.values())
    return [v]


def get_path(doc, path):
    for p in path:
        if type(doc) is not dict:
            return None
        doc = doc.get(p)
    return doc


# -- analyzers ------------------------------------------------------------------------------------

_STEM_VOWEL = re.compile("[aeiouy]")


def _stem_en(w):
    """Plural, -ed, -ing and -y only: enough to match inflected words, NOT the
    server's Snowball stemmer.
    """
    if len(w) <= 3:
        return w
    if w.endswith("sses") or w.endswith("ies"):
        w = w[:-2]
    elif w.endswith("s") and not w.endswith(("ss", "us")) and _STEM_VOWEL.search(w[:-2]):
        w = w[:-1]
    for suffix in ("ing", "ed"):
        stem = w[: -len(suffix)]
        if w.endswith(suffix) and not w.endswith("eed") and _STEM_VOWEL.search(stem):
            w = stem
            if w.endswith(("at", "bl", "iz")):
                w += "e"
            elif len(w) > 2 and w[-1] == w[-2] and w[-1] in "bdfgmnprt":
                w = w[:-1]
            break
    if w.endswith("e"):
        m = len(re.findall("[aeiouy]+[^aeiouy]+", w[:-1]))
        if m > 1 or (m == 1 and not re.search("[^aeiouy][aeiouy][^aeiouywx]$", w[:-1])):
            w = w[:-1]
    if len(w) > 2 and w.endswith("y") and w[-2] not in "aeiou":
        w = w[:-1] + "i"
    return w


def _words(text, case="lower", accent=False):
    if not accent:
        text = "".join(
            c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c)
        )
        text = unicodedata.normalize("NFC", text)
    text = text.lower() if case == "lower" else text.upper() if case == "upper" else text
    return re.findall(r"\w+(?:[.'’]\w+)*", text)


def analyze(text, analyzer, custom=None):
    """Tokens of one string under a named analyzer."""
    name = analyzer.split("::")[-1]
    if name == "identity":
        return [text]
    if name.startswith("text_") and (custom or {}).get(name) is None:
        stem = _stem_en if name == "text_en" else (lambda w: w)
        return [stem(w) for w in _words(text)]
    spec = (custom or {}).get(name)
    if spec is None:
        raise ArangoError(10, f"failed to find analyzer '{analyzer}'")
    kind = spec["type"]
    p = spec.get("properties") or {}
    if kind == "identity":
        return [text]
    if kind == "text":
        en = str(p.get("locale", "")).startswith("en") and p.get("stemming", True)
        words = _words(text, p.get("case", "lower"), p.get("accent", False))
        stop = set(p.get("stopwords") or [])
        return [_stem_en(w) if en else w for w in words if w not in stop]
    if kind == "norm":
        words = (
            text
            if p.get("accent", True)
            else "".join(
                c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c)
            )
        )
        return [{"lower": words.lower(), "upper": words.upper()}.get(p.get("case", "none"), words)]
    if kind == "delimiter":
        return text.split(p.get("delimiter", ""))
    if kind == "ngram":
        lo = int(p.get("min", 2))
        hi = int(p.get("max", 3))
        out = [
            text[i : i + n]
            for i in range(len(text))
            for n in range(lo, hi + 1)
            if i + n <= len(text)
        ]
        return out + ([text] if p.get("preserveOriginal") and text not in out else [])
    raise refuse(f"analyzers of type {kind!r}")

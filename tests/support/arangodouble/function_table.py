"""The table of AQL functions: name -> (fewest arguments, most arguments, f(context, *arguments)).

The context gives warn(code, text), document(id), analyzers and the name of the database.
KNOWN lists the other functions of the server: one of them is refused with error 9, any other
name is error 1540.
"""

from __future__ import annotations

from tests.support.arangodouble.errors import AqlError, refuse
from tests.support.arangodouble.values import hkey

FUNCTIONS = {}
MANY = 10**6
KNOWN = {
    "ANALYZER",
    "APPLY",
    "APPROX_NEAR_INNER_PRODUCT",
    "BIT_CONSTRUCT",
    "BIT_DECONSTRUCT",
    "BIT_FROM_STRING",
    "BIT_NEGATE",
    "BIT_POPCOUNT",
    "BIT_SHIFT_LEFT",
    "BIT_SHIFT_RIGHT",
    "BIT_TEST",
    "BIT_TO_STRING",
    "BM25",
    "BOOST",
    "CALL",
    "CHECK_DOCUMENT",
    "CRC32",
    "DATE_COMPARE",
    "DATE_ISOWEEK",
    "DATE_ISOWEEKYEAR",
    "DATE_LOCALTOUTC",
    "DATE_QUARTER",
    "DATE_ROUND",
    "DATE_TIMEZONE",
    "DATE_TIMEZONES",
    "DATE_UTCTOLOCAL",
    "DECAY_EXP",
    "DECAY_GAUSS",
    "DECAY_LINEAR",
    "DECODE_REV",
    "DISTANCE",
    "EXISTS",
    "FIRST_DOCUMENT",
    "FIRST_LIST",
    "FNV64",
    "FULLTEXT",
    "GEO_AREA",
    "GEO_CONTAINS",
    "GEO_DISTANCE",
    "GEO_EQUALS",
    "GEO_INTERSECTS",
    "GEO_IN_RANGE",
    "GEO_LINESTRING",
    "GEO_MULTILINESTRING",
    "GEO_MULTIPOINT",
    "GEO_MULTIPOLYGON",
    "GEO_POINT",
    "GEO_POLYGON",
    "HASH",
    "IN_RANGE",
    "IPV4_FROM_NUMBER",
    "IPV4_TO_NUMBER",
    "IS_IN_POLYGON",
    "IS_IPV4",
    "KEEP_RECURSIVE",
    "LEVENSHTEIN_MATCH",
    "MINHASH",
    "MINHASH_COUNT",
    "MINHASH_ERROR",
    "MINHASH_MATCH",
    "MIN_MATCH",
    "NEAR",
    "NGRAM_MATCH",
    "NGRAM_POSITIONAL_SIMILARITY",
    "OFFSET_INFO",
    "PHRASE",
    "SCHEMA_GET",
    "SCHEMA_VALIDATE",
    "SHARD_ID",
    "SOUNDEX",
    "SUBSTRING_BYTES",
    "TFIDF",
    "UNSET_RECURSIVE",
    "V8",
    "WITHIN",
    "WITHIN_RECTANGLE",
}


def fn(names, lo, hi=None):
    def add(f):
        for n in names.split():
            FUNCTIONS[n] = (lo, lo if hi is None else hi, f)
        return f

    return add


def type_warning(ctx, name):
    ctx.warn(1542, f"invalid argument type in call to function '{name}()'")


def arrays(ctx, name, *args):
    if all(type(a) is list for a in args):
        return True
    type_warning(ctx, name)
    return False


def distinct(values):
    out = {}
    for v in values:
        out.setdefault(hkey(v), v)
    return list(out.values())


def lookup(name, nargs):
    """The function, or 1540 / 1541 / 9."""
    f = FUNCTIONS.get(name)
    if f is None:
        if name in KNOWN:
            raise refuse(f"the AQL function {name}()")
        raise AqlError(1540, f"AQL: usage of unknown function '{name}()' (while parsing)")
    if not f[0] <= nargs <= f[1]:
        raise AqlError(
            1541,
            f"AQL: invalid number of arguments for function '{name}()', expected number of arguments: "
            f"minimum: {f[0]}, maximum: {f[1]} (while parsing)",
        )
    return f[2]

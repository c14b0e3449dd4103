"""AQL functions of arrays and objects."""

from __future__ import annotations

from tests.support.arangodouble.errors import AqlError
from tests.support.arangodouble.function_table import MANY, arrays, distinct, fn, type_warning
from tests.support.arangodouble.values import (
    contains,
    equal,
    hkey,
    num,
    sort_key,
    to_array,
    to_number,
    to_string,
    truthy,
)


# -- arrays ---------------------------------------------------------------------------------------
@fn("LENGTH COUNT", 1)
def _length(ctx, v):
    if v is None or v is False:
        return 0
    if v is True:
        return 1
    return len(v) if type(v) in (list, dict, str) else len(to_string(v))


@fn("FIRST", 1)
def _first(ctx, v):
    return (v[0] if v else None) if arrays(ctx, "FIRST", v) else None


@fn("LAST", 1)
def _last(ctx, v):
    return (v[-1] if v else None) if arrays(ctx, "LAST", v) else None


@fn("NTH", 2)
def _nth(ctx, v, i):
    if not arrays(ctx, "NTH", v):
        return None
    i = int(to_number(i))
    return v[i] if 0 <= i < len(v) else None


@fn("SLICE", 2, 3)
def _slice(ctx, v, start, length=None):
    if not arrays(ctx, "SLICE", v):
        return None
    start = int(to_number(start))
    start = max(0, len(v) + start) if start < 0 else start
    if length is None:
        return v[start:]
    n = int(to_number(length))
    return v[start : start + n] if n >= 0 else v[start : len(v) + n]


@fn("APPEND", 2, 3)
def _append(ctx, a, b, unique=False):
    if b is None:
        return a
    if a is None:
        return to_array(b) if type(b) is list else [b]
    if not arrays(ctx, "APPEND", a):
        return None
    b = b if type(b) is list else [b]
    return (distinct(a + b) if b else a) if truthy(unique) else a + b


@fn("PUSH", 2, 3)
def _push(ctx, a, v, unique=False):
    if a is None:
        return [v]
    if not arrays(ctx, "PUSH", a):
        return None
    return a if truthy(unique) and contains(a, v) else [*a, v]


@fn("UNSHIFT", 2, 3)
def _unshift(ctx, a, v, unique=False):
    if a is None:
        return [v]
    if not arrays(ctx, "UNSHIFT", a):
        return None
    return a if truthy(unique) and contains(a, v) else [v, *a]


fn("POP", 1)(lambda ctx, a: None if a is None else a[:-1] if arrays(ctx, "POP", a) else None)
fn("SHIFT", 1)(lambda ctx, a: None if a is None else a[1:] if arrays(ctx, "SHIFT", a) else None)
fn("UNIQUE", 1)(lambda ctx, a: distinct(a) if arrays(ctx, "UNIQUE", a) else None)
fn("SORTED", 1)(lambda ctx, a: sorted(a, key=sort_key) if arrays(ctx, "SORTED", a) else None)
fn("SORTED_UNIQUE", 1)(
    lambda ctx, a: sorted(distinct(a), key=sort_key) if arrays(ctx, "SORTED_UNIQUE", a) else None
)
fn("COUNT_DISTINCT COUNT_UNIQUE", 1)(
    lambda ctx, a: len(distinct(a)) if arrays(ctx, "COUNT_DISTINCT", a) else None
)
fn("UNION", 2, MANY)(
    lambda ctx, *a: [x for v in a for x in v] if arrays(ctx, "UNION", *a) else None
)
fn("UNION_DISTINCT", 2, MANY)(
    lambda ctx, *a: (
        distinct([x for v in a for x in v]) if arrays(ctx, "UNION_DISTINCT", *a) else None
    )
)


@fn("INTERSECTION", 2, MANY)
def _intersection(ctx, *a):
    if not arrays(ctx, "INTERSECTION", *a):
        return None
    sets = [{hkey(x) for x in v} for v in a[1:]]
    return [x for x in distinct(a[0]) if all(hkey(x) in s for s in sets)]


@fn("MINUS", 2, MANY)
def _minus(ctx, *a):
    if not arrays(ctx, "MINUS", *a):
        return None
    gone = {hkey(x) for v in a[1:] for x in v}
    return [x for x in distinct(a[0]) if hkey(x) not in gone]


@fn("OUTERSECTION", 2, MANY)
def _outersection(ctx, *a):
    if not arrays(ctx, "OUTERSECTION", *a):
        return None
    seen = [h for v in a for h in {hkey(x) for x in v}]
    return [x for x in distinct([x for v in a for x in v]) if seen.count(hkey(x)) == 1]


@fn("JACCARD", 2)
def _jaccard(ctx, a, b):
    if not arrays(ctx, "JACCARD", a, b):
        return None
    x = {hkey(v) for v in a}
    y = {hkey(v) for v in b}
    return 1 if not x | y else num(len(x & y) / len(x | y))


@fn("FLATTEN", 1, 2)
def _flatten(ctx, a, depth=1):
    if not arrays(ctx, "FLATTEN", a):
        return None
    depth = int(to_number(depth))
    for _ in range(max(1, depth)):
        a = [y for x in a for y in (x if type(x) is list else [x])]
    return a


@fn("POSITION CONTAINS_ARRAY", 2, 3)
def _position(ctx, a, v, index=False):
    if not arrays(ctx, "POSITION", a):
        return None
    at = next((i for i, x in enumerate(a) if equal(x, v)), -1)
    return at if truthy(index) else at >= 0


@fn("REVERSE", 1)
def _reverse(ctx, v):
    return v[::-1] if type(v) is list else to_string(v)[::-1]


@fn("REMOVE_VALUE", 2, 3)
def _remove_value(ctx, a, v, limit=None):
    if a is None:
        return []
    left = MANY if limit is None else to_number(limit)
    out = []
    for x in a if arrays(ctx, "REMOVE_VALUE", a) else []:
        if left and equal(x, v):
            left -= 1
        else:
            out.append(x)
    return out


@fn("REMOVE_VALUES", 2)
def _remove_values(ctx, a, vs):
    return (
        []
        if a is None
        else [x for x in a if not contains(vs or [], x)]
        if arrays(ctx, "REMOVE_VALUES", a)
        else None
    )


@fn("REMOVE_NTH", 2)
def _remove_nth(ctx, a, i):
    i = int(to_number(i))
    if a is None or not arrays(ctx, "REMOVE_NTH", a):
        return [] if a is None else None
    i = i + len(a) if i < 0 else i
    return [x for j, x in enumerate(a) if j != i]


@fn("REPLACE_NTH", 3, 4)
def _replace_nth(ctx, a, i, v, pad=None):
    if not arrays(ctx, "REPLACE_NTH", a):
        return None
    i = int(to_number(i))
    i = max(0, i + len(a)) if i < 0 else i
    if i > len(a) and pad is None:
        raise AqlError(1541, "AQL: invalid argument: REPLACE_NTH needs a defaultPaddingValue")
    a = a + [pad] * (i - len(a))
    return [*a[:i], v, *a[i + 1 :]]


@fn("INTERLEAVE", 2, MANY)
def _interleave(ctx, *a):
    if not arrays(ctx, "INTERLEAVE", *a):
        return None
    return [v[i] for i in range(max(map(len, a))) for v in a if i < len(v)]


# -- objects --------------------------------------------------------------------------------------
def _objects(ctx, name, args):
    if len(args) == 1 and type(args[0]) is list:
        args = args[0]
    args = [a for a in args if a is not None] if name == "MERGE_RECURSIVE" else list(args)
    if not all(type(a) is dict for a in args):
        type_warning(ctx, name)
        return None
    return args


@fn("MERGE", 1, MANY)
def _merge(ctx, *args):
    objs = _objects(ctx, "MERGE", args)
    if objs is None:
        return None
    out = {}
    for o in objs:
        out.update(o)
    return out


def deep_merge(a, b):
    out = dict(a)
    for k, v in b.items():
        out[k] = deep_merge(out[k], v) if type(v) is dict and type(out.get(k)) is dict else v
    return out


@fn("MERGE_RECURSIVE", 1, MANY)
def _merge_recursive(ctx, *args):
    objs = _objects(ctx, "MERGE_RECURSIVE", args)
    if objs is None:
        return None
    out = {}
    for o in objs:
        out = deep_merge(out, o)
    return out


def _names(args):
    out = set()
    for a in args:
        out |= set(a) if type(a) is list else {a} if type(a) is str else set()
    return out


@fn("KEEP", 2, MANY)
def _keep(ctx, d, *args):
    if type(d) is not dict:
        return type_warning(ctx, "KEEP")
    n = _names(args)
    return {k: v for k, v in d.items() if k in n}


@fn("UNSET", 2, MANY)
def _unset(ctx, d, *args):
    if type(d) is not dict:
        return type_warning(ctx, "UNSET")
    n = _names(args)
    return {k: v for k, v in d.items() if k not in n}


fn("HAS", 2)(lambda ctx, d, name: type(d) is dict and to_string(name) in d)


@fn("ATTRIBUTES KEYS", 1, 3)
def _attributes(ctx, d, internal=False, sort=False):
    if type(d) is not dict:
        return type_warning(ctx, "ATTRIBUTES")
    out = [k for k in d if not (truthy(internal) and k.startswith("_"))]
    return sorted(out) if truthy(sort) else out


@fn("VALUES", 1, 2)
def _values(ctx, d, internal=False):
    if type(d) is not dict:
        return type_warning(ctx, "VALUES")
    return [v for k, v in d.items() if not (truthy(internal) and k.startswith("_"))]


@fn("ENTRIES", 1)
def _entries(ctx, d):
    return [[k, v] for k, v in d.items()] if type(d) is dict else type_warning(ctx, "ENTRIES")


@fn("ZIP", 2)
def _zip(ctx, keys, values):
    if not arrays(ctx, "ZIP", keys, values) or len(keys) != len(values):
        type_warning(ctx, "ZIP")
        return None
    out = {}
    for k, v in zip(keys, values, strict=False):
        out.setdefault(to_string(k), v)
    return out


@fn("TRANSLATE", 2, 3)
def _translate(ctx, v, lookup, default=None):
    if type(lookup) is not dict:
        return type_warning(ctx, "TRANSLATE")
    return lookup.get(to_string(v), v if default is None else default)


@fn("VALUE", 2)
def _value(ctx, d, path):
    for p in path if type(path) is list else [path]:
        if type(d) is dict and type(p) is str:
            d = d.get(p)
        elif type(d) is list and type(p) is int and -len(d) <= p < len(d):
            d = d[p]
        else:
            return None
    return d


@fn("MATCHES", 2, 3)
def _matches(ctx, d, examples, index=False):
    examples = examples if type(examples) is list else [examples]
    at = next(
        (
            i
            for i, e in enumerate(examples)
            if type(d) is dict and type(e) is dict and all(equal(d.get(k), v) for k, v in e.items())
        ),
        -1,
    )
    return at if truthy(index) else at >= 0


def _identifier(ctx, v, name):
    v = v.get("_id") if type(v) is dict else v
    if type(v) is str and v.count("/") == 1 and all(v.split("/")):
        return v.split("/")
    return type_warning(ctx, name)


@fn("PARSE_IDENTIFIER", 1)
def _parse_identifier(ctx, v):
    p = _identifier(ctx, v, "PARSE_IDENTIFIER")
    return p and {"collection": p[0], "key": p[1]}


@fn("PARSE_KEY", 1)
def _parse_key(ctx, v):
    p = _identifier(ctx, v, "PARSE_KEY")
    return p and p[1]


@fn("PARSE_COLLECTION", 1)
def _parse_collection(ctx, v):
    p = _identifier(ctx, v, "PARSE_COLLECTION")
    return p and p[0]


@fn("IS_SAME_COLLECTION", 2)
def _is_same_collection(ctx, name, v):
    p = _identifier(ctx, v, "IS_SAME_COLLECTION")
    return p and p[0] == name


@fn("DOCUMENT", 1, 2)
def _document(ctx, a, b=None):
    if b is not None:
        ids = [
            f"{a}/{k}" if type(k) is str and "/" not in k else k
            for k in (b if type(b) is list else [b])
        ]
        many = type(b) is list
    else:
        ids, many = (a, True) if type(a) is list else ([a], False)
    found = [ctx.document(i) if type(i) is str else None for i in ids]
    return [d for d in found if d is not None] if many else found[0]


fn("COLLECTION_COUNT", 1)(lambda ctx, name: ctx.collection_count(name))
fn("COLLECTIONS", 0)(
    lambda ctx: [
        {"_id": str(i), "name": n} for i, n in enumerate(sorted(ctx.collection_names()), 1)
    ]
)
fn("CURRENT_DATABASE", 0)(lambda ctx: ctx.db_name)
fn("CURRENT_USER", 0)(lambda ctx: "root")
fn("VERSION", 0)(lambda ctx: ctx.version)

"""SEARCH conditions (and full-text functions under a forced inverted index), evaluated as a scan.

A compiled condition is f(env, doc) -> None (no match) or a score.  Scores are only monotone: more
and more frequent matching terms give more; they are not the server's BM25 numbers.
"""

from __future__ import annotations

from tests.support.arangodouble.errors import AqlError, refuse
from tests.support.arangodouble.functions_of_text import edit_distance, like_regex
from tests.support.arangodouble.values import (
    analyze,
    compare,
    contains,
    equal,
    get_path,
    is_num,
    to_number,
    to_string,
    truthy,
)

SEARCH_FUNCTIONS = {
    "PHRASE",
    "STARTS_WITH",
    "LEVENSHTEIN_MATCH",
    "NGRAM_MATCH",
    "EXISTS",
    "IN_RANGE",
    "MIN_MATCH",
    "ANALYZER",
    "BOOST",
}


class Search:
    """var: the loop variable; fields(doc, path) -> analyzers of that attribute, or
    None if not indexed.
    """

    def __init__(self, compiler, var, fields):
        self.c = compiler
        self.var = var
        self.fields = fields
        self.rt = compiler.rt

    def path(self, n):
        out = []
        while n.kind in ("attr", "index", "battr"):
            if n.kind == "attr":
                out.append(n.name)
            elif n.kind == "battr":
                b = self.rt.bind(n.bind)
                out.extend(reversed(b if type(b) is list else [b]))
            elif n.idx.kind in ("lit", "bind"):
                out.append(self.c.constant(n.idx))
            else:
                return None
            n = n.obj
        return out[::-1] if n.kind == "ref" and n.name == self.var and out else None

    def default_analyzer(self, n):
        """Under an inverted index a field has one analyzer, so none needs to be named."""
        path = self.path(n.args[0]) if n.args else None
        return (self.fields(None, path) or ["identity"])[0] if path else "identity"

    def terms(self, doc, path, analyzer):
        """The indexed terms of one attribute under one analyzer; [] when it is not
        indexed that way.
        """
        names = self.fields(doc, path)
        if names is None or not any(a.split("::")[-1] == analyzer.split("::")[-1] for a in names):
            return []
        key = (doc["_id"], doc["_rev"], tuple(path), analyzer)
        cache = self.rt.db.__dict__.setdefault("term_cache", {})
        if key not in cache:
            v = get_path(doc, path)
            if v is None and path[-1] not in (get_path(doc, path[:-1]) or {}):
                out = []
            else:
                out = []
                for x in v if type(v) is list else [v]:
                    out.extend(analyze(x, analyzer, self.rt.analyzers) if type(x) is str else [x])
            if len(cache) > 200_000:
                cache.clear()
            cache[key] = out
        return cache[key]

    def leaf(self, path, analyzer, test):
        def f(env, doc):
            hits = test(env, self.terms(doc, path, analyzer))
            return hits / (hits + 1.2) if hits else None

        return f

    def compile(self, n, analyzer="identity"):
        if n.kind == "binary" and n.op in ("AND", "OR"):
            a = self.compile(n.left, analyzer)
            b = self.compile(n.right, analyzer)
            if n.op == "AND":

                def both(env, doc):
                    x = a(env, doc)
                    y = None if x is None else b(env, doc)
                    return None if y is None else x + y

                return both

            def either(env, doc):
                x = a(env, doc)
                y = b(env, doc)
                return y if x is None else x if y is None else x + y

            return either
        if n.kind == "unary" and n.op == "!":
            a = self.compile(n.arg, analyzer)
            return lambda env, doc: 0.0 if a(env, doc) is None else None
        if n.kind == "binary":
            return self.comparison(n, analyzer)
        if n.kind == "quant":
            return self.quantified(n, analyzer)
        if n.kind == "call":
            return self.call(n, analyzer)
        if n.kind in ("lit", "bind"):
            v = truthy(self.c.constant(n))
            return lambda env, doc: 0.0 if v else None
        raise refuse(f"{n.kind!r} expressions inside SEARCH")

    def comparison(self, n, analyzer):
        left = n.left
        right = n.right
        op = n.op
        path = self.path(left)
        if path is None and op in ("==", "!=", "<", "<=", ">", ">="):
            path = self.path(right)
            left, right = right, left
            op = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)
        if path is None:
            raise refuse("SEARCH conditions without an attribute of the View row")
        value = self.c.expr(right)
        if op == "==":
            return self.leaf(
                path, analyzer, lambda env, ts: (lambda v: sum(equal(t, v) for t in ts))(value(env))
            )
        if op == "!=":
            return self.leaf(path, analyzer, lambda env, ts: not contains(ts, value(env)))
        if op in ("<", "<=", ">", ">="):
            ok = {
                "<": lambda c: c < 0,
                "<=": lambda c: c <= 0,
                ">": lambda c: c > 0,
                ">=": lambda c: c >= 0,
            }[op]

            def test(env, ts):
                v = value(env)
                return sum(
                    1
                    for t in ts
                    if (type(t) is type(v) or (is_num(t) and is_num(v))) and ok(compare(t, v))
                )

            return self.leaf(path, analyzer, test)
        if op in ("IN", "NOT IN"):

            def test_in(env, ts):
                v = value(env)
                v = v if type(v) is list else [v]
                hits = sum(contains(v, t) for t in ts)
                return hits if op == "IN" else not hits

            return self.leaf(path, analyzer, test_in)
        if op == "LIKE":

            def test_like(env, ts):
                rx = like_regex(to_string(value(env)))
                return sum(1 for t in ts if type(t) is str and rx.fullmatch(t))

            return self.leaf(path, analyzer, test_like)
        raise refuse(f"operator {op} inside SEARCH")

    def quantified(self, n, analyzer):
        path = self.path(n.right)
        if path is None or n.op not in ("==", "IN"):
            raise refuse("this array comparison inside SEARCH")
        values = self.c.expr(n.left)
        need = self.c.expr(n.atleast) if n.atleast else None

        def test(env, ts):
            vs = values(env) or []
            hits = sum(contains(ts, v) for v in vs)
            ok = {"ALL": hits == len(vs), "ANY": hits > 0, "NONE": hits == 0}.get(n.quant)
            if ok is None:
                ok = hits >= to_number(need(env))
            return (hits or 1) if ok else 0

        return self.leaf(path, analyzer, test)

    def call(self, n, analyzer):
        args = n.args
        name = n.name
        if name == "ANALYZER":
            return self.compile(args[0], to_string(self.c.constant(args[1])))
        if name == "BOOST":
            f = self.compile(args[0], analyzer)
            b = float(to_number(self.c.constant(args[1])))
            return lambda env, doc: (lambda s: None if s is None else s * b)(f(env, doc))
        if name == "MIN_MATCH":
            fs = [self.compile(a, analyzer) for a in args[:-1]]
            need = self.c.expr(args[-1])

            def min_match(env, doc):
                hits = [s for s in (f(env, doc) for f in fs) if s is not None]
                return sum(hits) if len(hits) >= to_number(need(env)) else None

            return min_match
        path = self.path(args[0]) if args else None
        if path is None:
            raise AqlError(
                10, f"AQL: invalid argument for function '{name}': attribute path expected"
            )
        vals = [self.c.expr(a) for a in args[1:]]
        if name == "EXISTS" and vals:
            raise refuse("EXISTS() with a type or analyzer")
        if name == "EXISTS":
            return lambda env, doc: (
                0.0
                if self.fields(doc, path) is not None and get_path(doc, path) is not None
                else None
            )
        if name == "PHRASE":
            if len(vals) > 2:
                raise refuse("PHRASE() with several parts")
            if len(vals) == 2:
                analyzer = to_string(self.c.constant(args[2]))

            def phrase(env, ts):
                want = vals[0](env)
                if type(want) is not str:
                    raise refuse("PHRASE() with array arguments")
                want = analyze(want, analyzer, self.rt.analyzers)
                k = len(want)
                return sum(ts[i : i + k] == want for i in range(len(ts) - k + 1)) if k else 0

            return self.leaf(path, analyzer, phrase)
        if name == "STARTS_WITH":

            def starts(env, ts):
                p = vals[0](env)
                p, need = (
                    (p, to_number(vals[1](env)) if len(vals) > 1 else 1)
                    if type(p) is list
                    else ([p], 1)
                )
                hits = sum(
                    any(type(t) is str and t.startswith(to_string(x)) for t in ts) for x in p
                )
                return hits if hits >= need else 0

            return self.leaf(path, analyzer, starts)
        if name == "LEVENSHTEIN_MATCH":

            def fuzzy(env, ts):
                word = to_string(vals[0](env))
                most = to_number(vals[1](env))
                swap = truthy(vals[2](env)) if len(vals) > 2 else True
                prefix = to_string(vals[4](env)) if len(vals) > 4 else ""
                return sum(
                    1
                    for t in ts
                    if type(t) is str
                    and t.startswith(prefix)
                    and edit_distance(t[len(prefix) :], word, swap) <= most
                )

            return self.leaf(path, analyzer, fuzzy)
        if name == "NGRAM_MATCH":
            threshold = 0.7
            if len(args) == 4 or (len(args) == 3 and not is_num(self.c.constant(args[2]))):
                analyzer = to_string(self.c.constant(args[-1]))
            if len(args) > 2 and is_num(self.c.constant(args[2])):
                threshold = self.c.constant(args[2])

            def ngram(env, ts):
                grams = analyze(to_string(vals[0](env)), analyzer, self.rt.analyzers)
                hits = sum(g in ts for g in grams)
                return hits if grams and hits / len(grams) >= threshold else 0

            return self.leaf(path, analyzer, ngram)
        if name == "IN_RANGE":

            def in_range(env, ts):
                lo, hi, inc_lo, inc_hi = [v(env) for v in vals]
                return sum(
                    1
                    for t in ts
                    if compare(t, lo) > (-1 if truthy(inc_lo) else 0)
                    and compare(t, hi) < (1 if truthy(inc_hi) else 0)
                )

            return self.leaf(path, analyzer, in_range)
        if name == "LIKE":

            def like(env, ts):
                rx = like_regex(to_string(vals[0](env)))
                return sum(1 for t in ts if type(t) is str and rx.fullmatch(t))

            return self.leaf(path, analyzer, like)
        raise refuse(f"{name}() inside SEARCH")


def view_fields(db, view):
    """fields(doc, path) for an arangosearch View."""
    links = view["links"]

    def fields(doc, path):
        node = links.get(doc["_id"].split("/")[0])
        if node is None:
            return None
        inherited = node.get("analyzers") or ["identity"]
        for p in path:
            sub = (node.get("fields") or {}).get(p)
            if sub is None:
                if not node.get("includeAllFields"):
                    return None
                sub = {"includeAllFields": True}
            inherited = sub.get("analyzers") or inherited
            node = sub
        return inherited

    return fields


def inverted_fields(index):
    default = index.body.get("analyzer") or "identity"
    table = {}
    for f in index.body["fields"]:
        name, spec = (f, {}) if type(f) is str else (f.get("name"), f)
        table[name] = [spec.get("analyzer") or default]
    everything = index.body.get("includeAllFields")
    return lambda doc, path: table.get(".".join(map(str, path)), [default] if everything else None)

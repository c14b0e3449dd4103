"""Compiles a parsed query to Python closures and runs it.

A row is a dict of variables.  Each statement is stage(rows, base) -> rows, base being the
variables of the enclosing queries.  Indexes only narrow the documents a FOR looks at; every
FILTER is still evaluated.
"""

from __future__ import annotations

import math
import time
from collections import deque
from operator import itemgetter

from tests.support.arangodouble.errors import AqlError, ArangoError, refuse
from tests.support.arangodouble.functions import FUNCTIONS, like, lookup, regex_test
from tests.support.arangodouble.search import SEARCH_FUNCTIONS, Search, inverted_fields, view_fields
from tests.support.arangodouble.tokens import ELEMENT
from tests.support.arangodouble.tree import N
from tests.support.arangodouble.values import (
    compare,
    contains,
    equal,
    get_path,
    hkey,
    is_num,
    num,
    sort_key,
    to_number,
    to_string,
    truthy,
)
from tests.support.arangodouble.vector_shape import VectorShape

MODIFY = {"insert", "update", "replace", "remove", "upsert"}


class Runtime:
    """What a running query can reach; also the ctx of the functions."""

    version = "3.12.10"

    def __init__(self, access, binds=None, options=None, user="root"):
        self.access = access
        self.db = access.db
        self.binds = binds or {}
        self.options = options or {}
        self.db_name = self.db.name
        self.analyzers = self.db.analyzers
        self.warnings, self.warned, self.now_ms = [], 0, int(time.time() * 1000)
        run = self.options.get("maxRuntime") or 0
        self.deadline = time.monotonic() + run if run else None
        self.stats = {
            "writesExecuted": 0,
            "writesIgnored": 0,
            "scannedFull": 0,
            "scannedIndex": 0,
            "filtered": 0,
        }
        self.full_count = None
        self.ticks = 0

    def bind(self, name):
        return self.binds[name]

    def warn(self, code, text):
        if self.options.get("failOnWarning"):
            raise AqlError(code, f"AQL: {text} (while executing)")
        if len(self.warnings) < self.options.get("maxWarningCount", 10):
            self.warnings.append({"code": code, "message": text})
        return

    def check_time(self):
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise AqlError(1500, "query killed")

    def tick(self):
        self.ticks += 1
        if self.ticks % 512 == 0:
            self.check_time()

    def document(self, ident):
        return self.access.document(ident) if ident.count("/") == 1 else None

    def collection_count(self, name):
        return len(self.access.collection(to_string(name)).docs)

    def collection_names(self):
        return list(self.db.collections)


def conjuncts(n):
    if n.kind == "binary" and n.op == "AND":
        return conjuncts(n.left) + conjuncts(n.right)
    return [n]


class Compiler:
    def __init__(self, rt, query):
        self.rt = rt
        self.query = query
        self.full_text = {}  # loop variable -> Search, under a forced inverted index
        self.options_warned = set()

    # -- names -----------------------------------------------------------------------------------
    def ds_name(self, n):
        if n.bind is None:
            return n.name
        v = self.rt.bind(n.bind)
        if type(v) is not str or not v:
            raise AqlError(
                1553, f"AQL: bind parameter '{n.bind}' has an invalid value or type (while parsing)"
            )
        return v

    def resolve(self, n, write=False):
        """-> ("collection" | "view", name); the 1203 check."""
        name = self.ds_name(n)
        db = self.rt.db
        trx = self.rt.access.trx
        if name in (db.collections if trx is None else trx.copies):
            self.rt.access.collection(name, write)
            return "collection", name
        if name in db.views and not write:
            return "view", name
        raise AqlError(1203, f"AQL: collection or view not found: {name} (while parsing)")

    def constant(self, n):
        if n.kind == "lit":
            return n.value
        if n.kind == "bind":
            return self.rt.bind(n.name)
        return self.expr(n)({})

    def is_constant(self, n):
        return all(x.kind in ("lit", "bind", "array", "object", "elem", "unary") for x in n.walk())

    def opts(self, node):
        if node is None:
            return {}
        for name in node.unknown:
            key = (node.context, name)
            if key not in self.options_warned:
                self.options_warned.add(key)
                self.rt.warn(
                    1539,
                    f"invalid OPTIONS attribute '{name}' used for {node.context.upper()} operation",
                )
        return {e.name: self.constant(e.value) for e in node.items}

    # -- expressions -----------------------------------------------------------------------------
    def expr(self, n):
        return getattr(self, "x_" + n.kind)(n)

    def x_lit(self, n):
        v = n.value
        return lambda env: v

    def x_bind(self, n):
        v = self.rt.bind(n.name)
        return lambda env: v

    def x_ref(self, n):
        return itemgetter(n.name)

    def x_ds(self, n):
        self.resolve(n)
        raise refuse(f"a collection ({self.ds_name(n)}) as an expression operand")

    def x_attr(self, n):
        name = n.name
        if n.obj.kind == "ref":
            var = n.obj.name

            def fast(env):
                o = env[var]
                return o.get(name) if type(o) is dict else None

            return fast
        obj = self.expr(n.obj)

        def f(env):
            o = obj(env)
            return o.get(name) if type(o) is dict else None

        return f

    def x_battr(self, n):
        path = self.rt.bind(n.bind)
        path = path if type(path) is list else [path]
        if not path or not all(type(p) is str for p in path):
            raise AqlError(1553, f"AQL: bind parameter '{n.bind}' has an invalid value or type")
        obj = self.expr(n.obj)
        return lambda env: get_path(obj(env), path)

    @staticmethod
    def access_value(o, i):
        if type(o) is dict:
            return o.get(i if type(i) is str else to_string(i))
        if type(o) is list:
            if type(i) is str:
                return None
            i = math.floor(to_number(i))
            return o[i] if -len(o) <= i < len(o) else None
        return None

    def x_index(self, n):
        obj = self.expr(n.obj)
        idx = self.expr(n.idx)
        return lambda env: self.access_value(obj(env), idx(env))

    def x_array(self, n):
        fs = [self.expr(x) for x in n.items]
        return lambda env: [f(env) for f in fs]

    def x_object(self, n):
        parts = []
        seen = set()
        for e in n.items:
            if e.name is not None:
                if e.name in seen:
                    continue  # 3.12: the first of two equal keys wins
                seen.add(e.name)
            parts.append((e.name, None if e.key is None else self.expr(e.key), self.expr(e.value)))
        if all(k is None for _, k, _ in parts):
            plain = [(name, v) for name, _, v in parts]
            return lambda env: {name: v(env) for name, v in plain}

        def f(env):
            out = {}
            for name, k, v in parts:
                out.setdefault(name if k is None else to_string(k(env)), v(env))
            return out

        return f

    def x_unary(self, n):
        a = self.expr(n.arg)
        if n.op == "!":
            return lambda env: not truthy(a(env))
        return (
            (lambda env: num(-to_number(a(env))))
            if n.op == "-"
            else (lambda env: to_number(a(env)))
        )

    def x_ternary(self, n):
        c = self.expr(n.cond)
        no = self.expr(n.no)
        if n.yes is None:

            def short(env):
                v = c(env)
                return v if truthy(v) else no(env)

            return short
        yes = self.expr(n.yes)
        return lambda env: yes(env) if truthy(c(env)) else no(env)

    def x_binary(self, n):
        op = n.op
        a = self.expr(n.left)
        b = self.expr(n.right)
        if op == "AND":

            def both(env):
                v = a(env)
                return b(env) if truthy(v) else v

            return both
        if op == "OR":

            def either(env):
                v = a(env)
                return v if truthy(v) else b(env)

            return either
        if op in ("IN", "NOT IN") and self.is_constant(n.right):
            values = b({})
            keys = {hkey(v) for v in values} if type(values) is list else set()
            if op == "IN":
                return lambda env: hkey(a(env)) in keys
            return lambda env: hkey(a(env)) not in keys
        if op == "..":

            def rng(env):
                lo = int(to_number(a(env)))
                hi = int(to_number(b(env)))
                if abs(hi - lo) > 10_000_000:
                    raise AqlError(1504, "AQL: number out of range")
                return list(range(lo, hi + 1)) if lo <= hi else list(range(lo, hi - 1, -1))

            return rng
        f = self.operator(op)
        return lambda env: f(a(env), b(env))

    def operator(self, op):
        rt = self.rt
        table = {
            "==": equal,
            "!=": lambda x, y: not equal(x, y),
            "<": lambda x, y: compare(x, y) < 0,
            "<=": lambda x, y: compare(x, y) <= 0,
            ">": lambda x, y: compare(x, y) > 0,
            ">=": lambda x, y: compare(x, y) >= 0,
            "IN": lambda x, y: contains(y, x),
            "NOT IN": lambda x, y: not contains(y, x),
            "LIKE": lambda x, y: like(rt, x, y),
            "=~": lambda x, y: regex_test(rt, x, y),
            "!~": lambda x, y: (lambda r: None if r is None else not r)(regex_test(rt, x, y)),
            "+": lambda x, y: num(to_number(x) + to_number(y)),
            "-": lambda x, y: num(to_number(x) - to_number(y)),
            "*": lambda x, y: num(to_number(x) * to_number(y)),
        }
        if op in table:
            return table[op]

        def divide(x, y):
            x = to_number(x)
            y = to_number(y)
            if y == 0:
                return rt.warn(1562, "division by zero")
            return num(x / y) if op == "/" else num(math.fmod(x, y))

        return divide

    def x_quant(self, n):
        a = self.expr(n.left)
        b = self.expr(n.right)
        f = self.operator(n.op)
        least = self.expr(n.atleast) if n.atleast else None

        def quant(env):
            xs = a(env)
            y = b(env)
            if type(xs) is not list:
                return False
            if n.quant == "AT LEAST":
                return sum(truthy(f(x, y)) for x in xs) >= to_number(least(env))
            return {"ALL": all, "ANY": any, "NONE": lambda it: not any(it)}[n.quant](
                truthy(f(x, y)) for x in xs
            )

        return quant

    def x_expand(self, n):
        obj = self.expr(n.obj)
        flt = self.expr(n.filter) if n.filter else None
        off = self.expr(n.offset) if n.offset else None
        lim = self.expr(n.limit) if n.limit else None
        ret = self.expr(n.ret) if n.ret else None
        tail = [("nested" if t.kind == "expand" else "key", self.expr(t)) for t in n.tail]

        def expand(env):
            xs = obj(env)
            if type(xs) is not list:
                return []
            for _ in range(n.levels - 1):
                xs = [y for x in xs for y in (x if type(x) is list else [x])]
            inner = None
            if flt or ret or tail:
                inner = dict(env)
            if flt:
                kept = []
                for x in xs:
                    inner["CURRENT"] = x
                    if truthy(flt(inner)):
                        kept.append(x)
                xs = kept
            if lim:
                skip = int(to_number(off(env))) if off else 0
                xs = xs[skip : skip + int(to_number(lim(env)))]
            if not ret and not tail:
                return list(xs)
            out = []
            for x in xs:
                inner["CURRENT"] = x
                v = ret(inner) if ret else x
                for kind, t in tail:
                    if kind == "nested":
                        inner[ELEMENT] = v
                        v = t(inner)
                    else:
                        v = self.access_value(v, t(env))
                out.append(v)
            return out

        return expand

    def x_question(self, n):
        obj = self.expr(n.obj)
        flt = self.expr(n.filter) if n.filter else None
        count = self.expr(n.count) if n.count else None

        def question(env):
            xs = obj(env)
            if type(xs) is not list:
                return False
            hits = 0
            for x in xs:
                hits += flt is None or truthy(flt({**env, "CURRENT": x}))
            if n.quant == "COUNT":
                c = count(env)
                if type(c) is list:
                    return c[0] <= hits <= c[-1]
                return hits == c
            if n.quant == "AT LEAST":
                return hits >= to_number(count(env))
            return {"ANY": hits > 0, "ALL": hits == len(xs), "NONE": hits == 0}[n.quant]

        return question

    def x_subquery(self, n):
        return self.body(n.body)

    def x_call(self, n):
        name = n.name
        rt = self.rt
        if name in SEARCH_FUNCTIONS - {"STARTS_WITH"}:
            for x in n.walk():
                if x.kind == "ref" and x.name in self.full_text:
                    s = self.full_text[x.name]
                    f = s.compile(n, s.default_analyzer(n))
                    var = x.name
                    return lambda env: f(env, env[var]) is not None
            raise refuse(f"{name}() outside SEARCH without a forced inverted index")
        if name in ("BM25", "TFIDF"):
            if not n.args or n.args[0].kind != "ref":
                raise AqlError(10, f"AQL: {name}() needs the View loop variable")
            key = "\0score:" + n.args[0].name

            def score(env):
                if key not in env:
                    raise AqlError(10, f"AQL: {name}() can only be used with a View loop variable")
                return num(env[key])

            return score
        if (
            name in ("LENGTH", "COUNT", "COLLECTION_COUNT")
            and len(n.args) == 1
            and n.args[0].kind == "ds"
        ):
            coll = self.resolve(n.args[0])[1]
            return lambda env: rt.collection_count(coll)
        args = n.args
        if name in ("DOCUMENT", "IS_SAME_COLLECTION") and args and args[0].kind == "ds":
            args = [N("lit", n.pos, value=self.resolve(args[0])[1]), *args[1:]]
        f = lookup(name, len(args))
        fs = [self.expr(a) for a in args]
        if len(fs) == 1:
            a = fs[0]
            return lambda env: f(rt, a(env))
        if len(fs) == 2:
            a, b = fs
            return lambda env: f(rt, a(env), b(env))
        return lambda env: f(rt, *[g(env) for g in fs])

    # -- query bodies ------------------------------------------------------------------------------
    def body(self, sts, top=False):
        VectorShape(self).check(sts)
        stages = []
        returns = None
        last_limit = max((i for i, s in enumerate(sts) if s.kind == "limit"), default=-1)
        for i, st in enumerate(sts):
            if st.kind == "return":
                returns = (self.expr(st.expr), st.distinct)
            elif st.kind == "for":
                stages.append(self.s_for(st, sts[i + 1 :]))
            elif st.kind == "limit":
                stages.append(self.s_limit(st, top and i == last_limit))
            elif st.kind in MODIFY:
                stages.append(self.s_modify(st))
                if self.opts(st.opts).get("overwriteMode") == "ignore" and any(
                    x.kind == "ref" and x.name == "OLD" for s in sts[i + 1 :] for x in s.walk()
                ):
                    raise AqlError(
                        1501, "AQL: OLD cannot be used with overwriteMode 'ignore' (while parsing)"
                    )
            else:
                stages.append(getattr(self, "s_" + st.kind)(st))

        def run(env):
            rows = iter((env,))
            for stage in stages:
                rows = stage(rows, env)
            if returns is None:
                deque(rows, maxlen=0)
                return []
            f, distinct = returns
            if not distinct:
                return [f(r) for r in rows]
            out = {}
            for r in rows:
                v = f(r)
                out.setdefault(hkey(v), v)
            return list(out.values())

        return run

    def bind_pattern(self, p):
        """-> assign(env, value) for a destructuring target."""
        if not isinstance(p, tuple):
            name = p.val
            return lambda env, v: env.__setitem__(name, v)
        kind, items = p
        if kind == "array":
            subs = [(i, self.bind_pattern(s)) for i, s in enumerate(items) if s is not None]
        else:
            subs = [(k, self.bind_pattern(s)) for k, s in items]

        def assign(env, v):
            for k, s in subs:
                s(env, self.access_value(v, k))

        return assign

    def s_let(self, st):
        items = [
            (name, None if pat is None else self.bind_pattern(pat), self.expr(e))
            for name, pat, e in st.items
        ]

        def stage(rows, base):
            for r in rows:
                r = dict(r)
                for name, pat, f in items:
                    if pat is None:
                        r[name] = f(r)
                    else:
                        pat(r, f(r))
                yield r

        return stage

    def s_filter(self, st):
        f = self.expr(st.cond)
        stats = self.rt.stats

        def stage(rows, base):
            for r in rows:
                if truthy(f(r)):
                    yield r
                else:
                    stats["filtered"] += 1

        return stage

    def s_sort(self, st):
        items = [(self.expr(e), d == "DESC") for e, d in st.items]
        near = getattr(st, "near", False)

        def stage(rows, base):
            rows = [(r, [sort_key(f(r)) for f, _ in items]) for r in rows]
            if near:  # documents without a vector are not in the vector index
                rows = [x for x in rows if x[1][0] != (0,)]
            for i in range(len(items) - 1, -1, -1):
                rows.sort(key=lambda x: x[1][i], reverse=items[i][1])
            for r, _ in rows[: self.rt.access.db.limits.near if near else None]:
                yield r

        return stage

    def limit_value(self, n, default):
        if n is None:
            return default
        v = self.expr(n)({}) if not self.is_constant(n) else self.constant(n)
        if v is None:
            return None
        if not is_num(v) or v < 0:
            raise AqlError(1504, "AQL: LIMIT value is not a non-negative number (while parsing)")
        return int(v)

    def s_limit(self, st, counted):
        skip = self.limit_value(st.offset, 0) or 0
        count = self.limit_value(st.count, None)
        rt = self.rt
        full = counted and self.rt.options.get("fullCount")

        def stage(rows, base):
            seen = 0
            if count == 0 and not full:
                return
            for r in rows:
                seen += 1
                if seen > skip and (count is None or seen <= skip + count):
                    yield r
                if count is not None and seen >= skip + count and not full:
                    return
            if full:
                rt.full_count = seen

        return stage

    def s_collect(self, st):
        self.opts(st.opts)
        groups = [(name, self.expr(e)) for name, e in st.groups]
        aggs = []
        for name, e in st.aggs:
            if e.name in ("LENGTH", "COUNT") and len(e.args) <= 1:
                aggs.append((name, None, e.name))
                continue
            if len(e.args) != 1:
                raise AqlError(1541, f"AQL: invalid number of arguments for function '{e.name}()'")
            aggs.append((name, self.expr(e.args[0]), e.name))
        into_expr = self.expr(st.into_expr) if st.into_expr else None
        keep = st.keep if st.keep is not None else st.before
        rt = self.rt

        def aggregate(name, values, count):
            if name in ("LENGTH", "COUNT"):
                return count
            if not values:
                return (
                    []
                    if name
                    in (
                        "UNIQUE",
                        "SORTED_UNIQUE",
                        "PUSH",
                        "UNION",
                        "UNION_DISTINCT",
                        "INTERSECTION",
                    )
                    else 0
                    if name in ("COUNT_DISTINCT", "COUNT_UNIQUE")
                    else {}
                    if name == "MERGE"
                    else None
                )
            if name == "PUSH":
                return values
            if name in ("UNION", "UNION_DISTINCT", "INTERSECTION"):
                return FUNCTIONS[name][2](
                    rt,
                    *(
                        values
                        if len(values) > 1
                        else values * 2
                        if name != "UNION"
                        else [*values, []]
                    ),
                )
            return FUNCTIONS[name][2](rt, values)

        def stage(rows, base):
            table = {}
            for r in rows:
                vals = [f(r) for _, f in groups]
                key = tuple(hkey(v) for v in vals)
                g = table.get(key)
                if g is None:
                    g = table[key] = [vals, 0, [[] for _ in aggs], []]
                g[1] += 1
                for i, (_, f, _n) in enumerate(aggs):
                    if f is not None:
                        g[2][i].append(f(r))
                if st.into:
                    g[3].append(into_expr(r) if into_expr else {k: r[k] for k in keep if k in r})
            if not table and not groups:
                table[()] = [[], 0, [[] for _ in aggs], []]
            for vals, count, lists, members in sorted(
                table.values(), key=lambda g: [sort_key(v) for v in g[0]]
            ):
                e = dict(base)
                e.update(zip((name for name, _ in groups), vals, strict=False))
                for (name, _, fname), values in zip(aggs, lists, strict=False):
                    e[name] = aggregate(fname, values, count)
                if st.into:
                    e[st.into] = members
                if st.count:
                    e[st.count] = count
                yield e

        return stage

    # -- FOR
    # -----------------------------------------------------------------------------------------
    def equality(self, n, var, later):
        """cond -> ("eq"|"in", field, value expr) usable for an index of the loop over
        var, else None.
        """

        def field(x):
            path = []
            while x.kind in ("attr", "battr"):
                if x.kind == "battr":
                    b = self.rt.bind(x.bind)
                    path.extend(reversed(b if type(b) is list else [b]))
                else:
                    path.append(x.name)
                x = x.obj
            return (
                ".".join(map(str, reversed(path)))
                if path and x.kind == "ref" and x.name == var
                else None
            )

        def free(x):
            return not any(
                (y.kind == "ref" and y.name in later) or y.kind == "subquery" for y in x.walk()
            )

        if n.kind != "binary":
            return None
        if n.op == "==":
            for a, b in ((n.left, n.right), (n.right, n.left)):
                f = field(a)
                if f and free(b):
                    return "eq", f, b
        if n.op == "IN" and field(n.left) and free(n.right):
            return "in", field(n.left), n.right
        return None

    def index_plan(self, conds, var, later):
        """-> f(coll, env) -> candidate keys or None."""
        simple = []
        ors = []
        for c in conds:
            e = self.equality(c, var, later)
            if e:
                simple.append((e[0], e[1], self.expr(e[2])))
            elif c.kind == "binary" and c.op == "OR":
                sides = [self.index_plan(conjuncts(s), var, later) for s in (c.left, c.right)]
                if all(sides):
                    ors.append(sides)
        if not simple and not ors:
            return None

        def plan(coll, env):
            pairs = []
            for kind, field, f in simple:
                v = f(env)
                if kind == "in" and type(v) is not list:
                    return []
                pairs.append((field, [v] if kind == "eq" else v))
            best = coll.candidates(pairs)
            for sides in ors:
                found = [s(coll, env) for s in sides]
                if all(k is not None for k in found):
                    keys = list(dict.fromkeys(k for ks in found for k in ks))
                    if best is None or len(keys) < len(best):
                        best = keys
            return best

        return plan

    def s_for(self, st, rest):
        rt = self.rt
        assign = self.bind_pattern(st.pattern) if st.pattern else None
        opts = self.opts(st.opts)
        if st.src.kind != "ds":
            src = self.expr(st.src)

            def over_list(rows, base):
                for r in rows:
                    xs = src(r)
                    if type(xs) is not list:
                        kind = FUNCTIONS["TYPENAME"][2](rt, xs)
                        raise AqlError(
                            1563,
                            "AQL: collection or array expected as operand to FOR loop; you provided a "
                            f"value of type '{kind}' (while executing)",
                        )
                    for x in xs:
                        rt.tick()
                        e = dict(r)
                        if assign:
                            assign(e, x)
                        else:
                            e[st.var] = x
                        yield e

            return over_list
        kind, name = self.resolve(st.src)
        if kind == "view" or st.search is not None:
            if kind != "view":
                raise AqlError(1501, "AQL: SEARCH condition used on non-view (while parsing)")
            return self.over_view(st, name, opts)
        coll = rt.access.collection(name)
        hints = opts.get("indexHint")
        hints = hints if type(hints) is list else [hints] if hints else []
        hinted = next((ix for h in hints for ix in coll.indexes if ix.name == h), None)
        if (
            opts.get("forceIndexHint")
            and hints
            and hinted is None
            and not set(hints) & {"primary", "edge"}
        ):
            raise AqlError(
                1577,
                f"AQL: could not use index hint to serve query; index hint: {hints} (while optimizing plan)",
            )
        if hinted is not None and hinted.type == "inverted" and st.var:
            self.full_text[st.var] = Search(self, st.var, inverted_fields(hinted))
        conds = []
        later = {st.var}
        for s in rest:
            if s.kind == "filter":
                conds.extend(conjuncts(s.cond))
            elif s.kind == "let":
                later.update(n for n, _, _ in s.items if n)
                if any(p for _, p, _ in s.items):
                    break
            else:
                break
        plan = (
            self.index_plan(conds, st.var, later)
            if st.var and not opts.get("disableIndex")
            else None
        )
        st.indexed = plan is not None
        access = rt.access
        stats = rt.stats

        def over_collection(rows, base):
            for r in rows:
                coll = access.collection(name)
                keys = plan(coll, r) if plan else None
                if keys is None:
                    docs = list(coll.docs.values())
                    stats["scannedFull"] += len(docs)
                else:
                    docs = [coll.docs[k] for k in keys]
                    stats["scannedIndex"] += len(docs)
                for d in docs:
                    rt.tick()
                    e = dict(r)
                    if assign:
                        assign(e, d)
                    else:
                        e[st.var] = d
                    yield e

        return over_collection

    def over_view(self, st, name, opts):
        rt = self.rt
        db = self.rt.db
        view = db.views[name]
        cond = (
            Search(self, st.var, view_fields(db, view)).compile(st.search)
            if st.search is not None
            else None
        )
        key = f"\0score:{st.var}"

        def stage(rows, base):
            for r in rows:
                for link in view["links"]:
                    if opts.get("collections") and link not in opts["collections"]:
                        continue
                    coll = db.collections.get(link)  # never a transaction's own writes
                    for d in list(coll.docs.values()) if coll else []:
                        rt.tick()
                        s = 0.0 if cond is None else cond(r, d)
                        if s is not None:
                            rt.stats["scannedIndex"] += 1
                            e = dict(r)
                            e[st.var], e[key] = d, s
                            yield e

        return stage

    # -- graphs
    # ----------------------------------------------------------------------------------------
    def edge_sources(self, st):
        if st.subject[0] == "graph":
            gname = to_string(self.constant(st.subject[1]))
            g = self.rt.db.graphs.get(gname)
            if g is None:
                raise AqlError(1924, f"AQL: graph '{gname}' not found (while parsing)")
            return [(st.direction, d["collection"]) for d in g["edgeDefinitions"]]
        out = []
        for d, ds in st.subject[1]:
            kind, name = self.resolve(ds)
            if kind != "collection" or not self.rt.access.collection(name).edge:
                raise AqlError(
                    1218, f"AQL: collection type invalid: {name} is not an edge collection"
                )
            out.append((d, name))
        return out

    def neighbours(self, sources, only_edges=None):
        access = self.rt.access
        stats = self.rt.stats

        def near(vid):
            for direction, name in sources:
                if only_edges and name not in only_edges:
                    continue
                coll = access.collection(name)
                seen = set()
                for field, other, wanted in (
                    ("_from", "_to", "OUTBOUND"),
                    ("_to", "_from", "INBOUND"),
                ):
                    if direction in (wanted, "ANY"):
                        for k in list(coll.map_for(field).get(vid, ())):
                            if k not in seen:
                                seen.add(k)
                                stats["scannedIndex"] += 1
                                e = coll.docs[k]
                                yield e, e[other]

        return near

    def start_id(self, v):
        v = v.get("_id") if type(v) is dict else v
        if type(v) is str and v.count("/") == 1 and all(v.split("/")):
            return v
        return self.rt.warn(
            10, "Invalid input for traversal: Only id strings or objects with _id are allowed"
        )

    def s_traversal(self, st):
        rt = self.rt
        o = self.opts(st.opts)
        order = "bfs" if o.get("bfs") is True else o.get("order", "dfs")
        if order == "weighted" or o.get("weightAttribute"):
            raise refuse("weighted traversals")
        as_list = lambda v: None if v is None else v if type(v) is list else [v]  # noqa: E731
        near = self.neighbours(self.edge_sources(st), as_list(o.get("edgeCollections")))
        only_vertices = as_list(o.get("vertexCollections"))
        unique_v = o.get("uniqueVertices", "none")
        unique_e = o.get("uniqueEdges", "path")
        steps = self.expr(st.steps) if st.steps is not None else (lambda env: 1)
        start = self.expr(st.start)
        names = st.vars + [None] * (3 - len(st.vars))
        prune = self.expr(st.prune) if st.prune is not None else None
        needs_path = names[2] is not None

        def stage(rows, base):
            for r in rows:
                depth = steps(r)
                lo, hi = (depth[0], depth[-1]) if type(depth) is list and depth else (depth, depth)
                if not is_num(lo) or not is_num(hi) or lo < 0 or hi < lo:
                    raise AqlError(10, "AQL: invalid traversal depth")
                vid = self.start_id(start(r))
                first = None if vid is None else rt.document(vid)
                if first is None:
                    continue
                visited = {vid}
                todo = deque([(vid, (first,), (), (vid,))])
                while todo:
                    rt.tick()
                    vid, vs, es, ids = todo.popleft() if order == "bfs" else todo.pop()
                    e = dict(r)
                    e[names[0]] = vs[-1]
                    if names[1]:
                        e[names[1]] = es[-1] if es else None
                    if needs_path:
                        e[names[2]] = {"vertices": list(vs), "edges": list(es)}
                    stop = False
                    if prune:
                        verdict = prune(e)
                        stop = truthy(verdict)
                        if st.prune_var:
                            e[st.prune_var] = verdict
                    if len(es) >= lo:
                        yield e
                    if stop or len(es) >= hi:
                        continue
                    nexts = []
                    for edge, other in near(vid):
                        if unique_e == "path" and any(x["_id"] == edge["_id"] for x in es):
                            continue
                        if (unique_v == "path" and other in ids) or (
                            unique_v == "global" and other in visited
                        ):
                            continue
                        if only_vertices and other.split("/")[0] not in only_vertices:
                            continue
                        visited.add(other)
                        doc = rt.document(other)
                        nexts.append((other, (*vs, doc), (*es, edge), (*ids, other)))
                    todo.extend(nexts if order == "bfs" else reversed(nexts))

        return stage

    def s_path(self, st):
        if st.mode != "SHORTEST_PATH":
            raise refuse(st.mode)
        rt = self.rt
        o = self.opts(st.opts)
        if o.get("weightAttribute"):
            raise refuse("weighted shortest paths")
        near = self.neighbours(self.edge_sources(st))
        start = self.expr(st.start)
        to = self.expr(st.to)

        def stage(rows, base):
            for r in rows:
                a = self.start_id(start(r))
                b = self.start_id(to(r))
                if a is None or b is None:
                    continue
                came = {a: (None, None)}
                todo = deque([a])
                while todo and b not in came:
                    rt.tick()
                    v = todo.popleft()
                    for edge, other in near(v):
                        if other not in came:
                            came[other] = (v, edge)
                            todo.append(other)
                if b not in came or rt.document(a) is None:
                    continue
                path = []
                v = b
                while v is not None:
                    path.append((v, came[v][1]))
                    v = came[v][0]
                for v, edge in reversed(path):
                    e = dict(r)
                    e[st.vars[0]] = rt.document(v)
                    if len(st.vars) > 1:
                        e[st.vars[1]] = edge
                    yield e

        return stage

    # -- data modification
    # -------------------------------------------------------------------------------
    def s_modify(self, st):
        rt = self.rt
        o = self.opts(st.opts)
        _kind, name = self.resolve(st.ds, write=True)
        if o.get("versionAttribute"):
            raise refuse("versionAttribute")
        keep_null = truthy(o.get("keepNull", True))
        merge = truthy(o.get("mergeObjects", True))
        check_rev = not truthy(o.get("ignoreRevs", True))
        lenient = truthy(o.get("ignoreErrors", False))
        access = rt.access
        stats = rt.stats

        def key_rev(v):
            key = v.get("_key") if type(v) is dict else v
            if type(v) is dict and key is None:
                raise AqlError(1226, "AQL: missing document key (while executing)")
            if type(key) is not str:
                raise AqlError(1221, "AQL: illegal document key (while executing)")
            return key, (v.get("_rev") if check_rev and type(v) is dict else None)

        if st.kind == "insert":
            doc = self.expr(st.doc)
            mode = o.get("overwriteMode") or (
                "replace" if truthy(o.get("overwrite")) else "conflict"
            )
            if mode not in ("ignore", "replace", "update", "conflict"):
                raise AqlError(1539, f"AQL: invalid overwriteMode {mode!r}")

            def work(r):
                old, new = access.insert(name, doc(r), mode, keep_null, merge)
                return (None, None, False) if new is None else (old, new, True)
        elif st.kind == "remove":
            doc = self.expr(st.doc)

            def work(r):
                key, rev = key_rev(doc(r))
                return (*access.remove(name, key, rev), True)
        elif st.kind in ("update", "replace"):
            doc = self.expr(st.doc)
            key_f = self.expr(st.key) if st.key is not None else None

            def work(r):
                d = doc(r)
                if type(d) is not dict:
                    raise AqlError(1227, "AQL: invalid document type (while executing)")
                key, rev = key_rev(key_f(r) if key_f else d)
                if st.kind == "update":
                    return (*access.update(name, key, d, rev, keep_null, merge), True)
                return (*access.replace(name, key, d, rev), True)
        else:
            work = self.upsert(st, name, keep_null, merge)

        def stage(rows, base):
            rows = list(rows)
            out = []
            for r in rows:
                mark = len(access.undo)
                try:
                    old, new, counted = work(r)
                except ArangoError as err:
                    if not lenient or err.num in (9, 1203, 1652):
                        raise
                    access.rollback(mark)
                    stats["writesIgnored"] += 1
                    continue
                stats["writesExecuted"] += counted
                e = dict(r)
                e["OLD"] = old
                if st.kind != "remove":
                    e["NEW"] = new
                out.append(e)
            return iter(out)

        return stage

    def upsert(self, st, name, keep_null, merge):
        access = self.rt.access
        rt = self.rt
        insert = self.expr(st.insert)
        update = self.expr(st.update)
        if st.filter is not None:
            flt = self.expr(st.filter)

            def find(r):
                return next(
                    (
                        d
                        for d in access.collection(name).docs.values()
                        if truthy(flt({**r, "CURRENT": d}))
                    ),
                    None,
                )
        else:
            search = self.expr(st.search)

            def match(d, want):
                return type(d) is dict and all(
                    match(d.get(k), v) if type(v) is dict and v else equal(d.get(k), v)
                    for k, v in want.items()
                )

            def find(r):
                want = search(r)
                coll = access.collection(name)
                if type(want) is not dict:
                    raise AqlError(1501, "AQL: UPSERT search expression must be an object")
                keys = coll.candidates([(k, [v]) for k, v in want.items()])
                docs = coll.docs.values() if keys is None else [coll.docs[k] for k in keys]
                rt.stats["scannedIndex" if keys is not None else "scannedFull"] += len(docs)
                return next((d for d in docs if match(d, want)), None)

        def work(r):
            old = find(r)
            if old is None:
                _, new = access.insert(name, insert(r))
                return None, new, True
            patch = update({**r, "OLD": old})
            if type(patch) is not dict:
                raise AqlError(1227, "AQL: invalid document type (while executing)")
            if st.mode == "update":
                return (*access.update(name, old["_key"], patch, None, keep_null, merge), True)
            return (*access.replace(name, old["_key"], patch), True)

        return work

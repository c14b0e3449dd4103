"""AQL text -> tree of N nodes.

A recursive descent over the tokens. One class: its rules call each other, and all
move one position.
"""

from __future__ import annotations

import re

from tests.support.arangodouble.errors import AqlError
from tests.support.arangodouble.tokens import (
    AGGREGATES,
    BINDING,
    COMPARE,
    DIRECTIONS,
    ELEMENT,
    KEYWORDS,
    MODIFYING,
    OPTIONS,
    QUANTIFIERS,
    STATEMENTS,
    Tok,
    lex,
    syntax_error,
)
from tests.support.arangodouble.tree import N, Query


class Parser:
    def __init__(self, text, binds=None, keywords=KEYWORDS):
        self.text = text
        self.bound = binds or {}
        self.t = lex(text, keywords)
        self.i = 0
        self.q = Query(text)
        self.scopes = [[set()]]  # per query level: list of scopes
        self.specials = [set()]  # NEW / OLD per query level
        self.current = 0
        self.written = []

    # -- token helpers
    @property
    def k(self):
        return self.t[self.i]

    def peek(self, d=1):
        return self.t[min(self.i + d, len(self.t) - 1)]

    def err(self, msg=None, code=1501, tok=None):
        tok = tok or self.k
        if code == 1501:
            raise syntax_error(self.text, tok, msg)
        raise AqlError(code, f"AQL: {msg} at position {tok.pos[0]}:{tok.pos[1]}")

    def iskw(self, *v):
        return self.k.kind == "kw" and self.k.val in v

    def isop(self, *v):
        return self.k.kind == "op" and self.k.val in v

    def isword(self, w):
        return self.k.kind == "id" and not self.k.quoted and self.k.val.upper() == w

    def take(self):
        tok = self.k
        self.i += 1
        return tok

    def op(self, v):
        if not self.isop(v):
            self.err()
        return self.take()

    def kw(self, *v):
        if not self.iskw(*v):
            self.err()
        return self.take()

    def ident(self):
        if self.k.kind != "id":
            self.err()
        return self.take()

    # -- scopes
    def declare(self, tok):
        if self.known(tok.val):
            self.err(f"variable '{tok.val}' is assigned multiple times", 1511, tok)
        self.scopes[-1][-1].add(tok.val)

    def known(self, name):
        return any(name in sc for lv in self.scopes for sc in lv)

    # -- query levels
    def parse(self):
        if self.iskw("WITH"):
            self.take()
            while True:
                if self.k.kind not in ("id", "bind", "coll"):
                    self.err()
                self.q.withs.append(self.datasource(self.take(), read=False))
                if self.isop(","):
                    self.take()
                elif self.k.kind not in ("id", "bind", "coll"):
                    break
        self.q.statements = self.query()
        if self.k.kind != "end":
            self.err()
        return self.q

    def datasource(self, tok, read=True):
        node = N("ds", tok.pos, name=None, bind=None)
        if tok.kind in ("id", "str"):
            node.name = tok.val
        else:
            self.q.binds.add(tok.val)
            node.bind = tok.val
        if read:
            self.q.reads.append(node)
        return node

    def ds_label(self, node):
        return node.name if node.bind is None else str(self.bound.get(node.bind, "@" + node.bind))

    def query(self):
        out = []
        while True:
            if not (self.k.kind == "kw" and self.k.val in STATEMENTS):
                writes = any(x.kind in MODIFYING for x in out)
                if writes and (out[-1].kind in MODIFYING or out[-1].kind == "let"):
                    return out
                self.err()
            st = getattr(self, "st_" + self.k.val.lower())()
            out.append(st)
            if st.kind == "return":
                return out

    def subquery(self, pos):
        self.scopes.append([set()])
        self.specials.append(set(self.specials[-1]))
        sts = self.query()
        self.scopes.pop()
        self.specials.pop()
        return N("subquery", pos, body=sts)

    # -- statements
    def st_for(self):
        f = self.take()
        names = []
        pattern = None
        if self.isop("[", "{"):
            pattern = self.pattern()
        else:
            names.append(self.ident())
            while self.isop(","):
                self.take()
                names.append(self.ident())
        self.kw("IN")
        steps = None
        if not self.iskw(*DIRECTIONS):
            steps = self.expr()
        if self.iskw(*DIRECTIONS):
            if pattern:
                self.err("destructuring is not allowed for graph queries", tok=f)
            return self.graph_for(f, names, steps)
        if pattern is None and len(names) != 1:
            self.err("a plain FOR loop takes exactly one variable", tok=f)
        if steps.kind == "ds" and self.ds_label(steps) in self.written:
            self.err(f"access after data-modification by {self.ds_label(steps)}", 1579, f)
        self.scopes[-1].append(set())
        for v in pattern_names(pattern) if pattern else names:
            self.declare(v)
        search = opts = None
        if self.isword("SEARCH"):
            st = self.take()
            if steps.kind != "ds":
                self.err("SEARCH condition used on non-view", tok=st)
            search = self.expr()
        if self.isword("OPTIONS"):
            opts = self.options("search" if search is not None else "for")
        return N(
            "for",
            f.pos,
            var=names[0].val if names else None,
            pattern=pattern,
            src=steps,
            search=search,
            opts=opts,
        )

    def graph_for(self, f, names, steps):
        direction = self.take().val
        mode = "traversal"
        if self.iskw("SHORTEST_PATH", "K_SHORTEST_PATHS", "K_PATHS", "ALL_SHORTEST_PATHS"):
            mode = self.take().val
            if steps is not None and mode != "K_PATHS":
                self.err("depth is not allowed here", tok=f)
        start = self.expr()
        to = None
        if mode != "traversal":
            if not self.isword("TO"):
                self.err()
            self.take()
            to = self.expr()
        subject = self.graph_subject(direction)
        limit = {"traversal": (1, 3), "SHORTEST_PATH": (1, 2)}.get(mode, (1, 1))
        if not limit[0] <= len(names) <= limit[1]:
            self.err(f"{mode}s only have between {limit[0]} and {limit[1]} return variables", tok=f)
        if self.written:
            self.err("access after data-modification by traversal", 1579, f)
        self.scopes[-1].append(set())
        for v in names:
            self.declare(v)
        node = N(
            "traversal" if mode == "traversal" else "path",
            f.pos,
            mode=mode,
            vars=[v.val for v in names],
            direction=direction,
            steps=steps,
            start=start,
            to=to,
            subject=subject,
            prune=None,
            prune_var=None,
            opts=None,
        )
        if mode == "traversal":
            if self.isword("PRUNE"):
                self.take()
                if self.k.kind == "id" and self.peek().kind == "op" and self.peek().val == "=":
                    v = self.take()
                    self.take()
                    self.declare(v)
                    node.prune_var = v.val
                node.prune = self.expr()
                for x in node.prune.walk():
                    if x.kind == "subquery":
                        self.err("prune condition must not use a subquery", tok=f)
                    if x.kind == "call" and x.name in ("DOCUMENT", "CALL", "APPLY"):
                        self.err("disallowed dynamic call in PRUNE: " + x.name, 1578, f)
            if self.isword("OPTIONS"):
                node.opts = self.options("traversal")
                self.check_traversal(node.opts, f)
        elif self.isword("OPTIONS"):
            node.opts = self.options("path")
        return node

    def check_traversal(self, opts, f):
        o = {e.name: getattr(e.value, "value", None) for e in opts.items}
        order = "bfs" if o.get("bfs") is True else o.get("order", "dfs")
        if order not in ("bfs", "dfs", "weighted"):
            self.err(f"invalid value for traversal option 'order': {order!r}", 10, f)
        if o.get("uniqueVertices", "none") not in ("global", "path", "none"):
            self.err("invalid value for traversal option 'uniqueVertices'", 10, f)
        if o.get("uniqueEdges", "path") not in ("path", "none"):
            self.err("uniqueEdges: only 'path' or 'none' are supported", 10, f)
        if o.get("uniqueVertices") == "global" and order not in ("bfs", "weighted"):
            self.err(
                "uniqueVertices: 'global' is only supported with order: 'bfs' or 'weighted'", 10, f
            )

    def graph_subject(self, direction):
        if self.iskw("GRAPH"):
            self.take()
            if self.k.kind == "bind":
                tok = self.take()
                self.q.binds.add(tok.val)
                return ("graph", N("bind", tok.pos, name=tok.val))
            if self.k.kind not in ("str", "id"):
                self.err()
            tok = self.take()
            return ("graph", N("lit", tok.pos, value=tok.val))
        parts = []
        while True:
            d = self.take().val if self.iskw(*DIRECTIONS) else direction
            if self.k.kind not in ("id", "bind", "coll"):
                self.err()
            parts.append((d, self.datasource(self.take())))
            if not self.isop(","):
                return ("edges", parts)
            self.take()

    def st_let(self):
        f = self.take()
        out = []
        while True:
            target = self.pattern() if self.isop("[", "{") else self.ident()
            self.op("=")
            e = self.expr()
            if isinstance(target, Tok):
                self.declare(target)
                out.append((target.val, None, e))
            else:
                for v in pattern_names(target):
                    self.declare(v)
                out.append((None, target, e))
            if not self.isop(","):
                return N("let", f.pos, items=out)
            self.take()

    def pattern(self):
        """Destructuring target: ("array", [sub|None..]) or ("object", [(name, sub)..])."""
        if self.isop("["):
            self.take()
            items = []
            while not self.isop("]"):
                if self.isop(","):
                    self.take()
                    items.append(None)
                    continue
                items.append(self.pattern() if self.isop("[", "{") else self.ident())
                if not self.isop("]"):
                    self.op(",")
            self.take()
            return ("array", items)
        self.op("{")
        items = []
        while True:
            if self.k.kind not in ("id", "str"):
                self.err()
            key = self.take()
            if self.isop(":"):
                self.take()
                items.append((key.val, self.pattern() if self.isop("[", "{") else self.ident()))
            else:
                items.append((key.val, key))
            if self.isop("}"):
                break
            self.op(",")
        self.take()
        return ("object", items)

    def st_filter(self):
        f = self.take()
        return N("filter", f.pos, cond=self.expr())

    def st_collect(self):
        f = self.take()
        groups = []
        aggs = []
        into = None
        into_expr = None
        keep = None
        count = None
        before = [v for lv in self.scopes[-1:] for sc in lv for v in sc]
        if self.k.kind == "id" and not self.isword("KEEP") and not self.isword("OPTIONS"):
            while True:
                v = self.ident()
                self.op("=")
                groups.append((v, self.expr()))
                if not self.isop(","):
                    break
                self.take()
        elif not self.iskw("WITH", "AGGREGATE"):
            self.err()
        if self.iskw("WITH"):
            self.take()
            if not self.isword("COUNT"):
                self.err()
            self.take()
            self.kw("INTO")
            count = self.ident()
        else:
            if self.iskw("AGGREGATE"):
                aggs = self.aggregates()
            if self.iskw("INTO"):
                self.take()
                into = self.ident()
                if self.isop("="):
                    self.take()
                    into_expr = self.expr()
            if self.isword("KEEP"):
                kt = self.take()
                if into is None or into_expr is not None:
                    self.err(tok=kt)
                keep = []
                while True:
                    n = self.ident()
                    if not self.known(n.val):
                        self.err(f"unknown variable '{n.val}' in KEEP", 1512, n)
                    keep.append(n.val)
                    if not self.isop(","):
                        break
                    self.take()
        opts = self.options("collect") if self.isword("OPTIONS") else None
        self.scopes[-1] = [self.scopes[-1][0] if len(self.scopes[-1]) == 1 else set(), set()]
        self.scopes[-1][0] = set()
        for v in [g[0] for g in groups] + [a[0] for a in aggs] + [x for x in (into, count) if x]:
            self.declare(v)
        return N(
            "collect",
            f.pos,
            groups=[(v.val, e) for v, e in groups],
            aggs=[(v.val, e) for v, e in aggs],
            into=into and into.val,
            into_expr=into_expr,
            keep=keep,
            count=count and count.val,
            opts=opts,
            before=before,
        )

    def aggregates(self):
        self.kw("AGGREGATE")
        out = []
        while True:
            v = self.ident()
            self.op("=")
            tok = self.k
            e = self.expr()
            if e.kind != "call" or e.name not in AGGREGATES:
                self.err(
                    "aggregate expression must be a function call to an aggregate function",
                    1574,
                    tok,
                )
            out.append((v, e))
            if not self.isop(","):
                return out
            self.take()

    def st_sort(self):
        f = self.take()
        items = []
        while True:
            e = self.expr()
            d = "ASC"
            if self.iskw("ASC", "DESC"):
                d = self.take().val
            items.append((e, d))
            if not self.isop(","):
                return N("sort", f.pos, items=items)
            self.take()

    def st_limit(self):
        f = self.take()
        a = [self.expr()]
        if self.isop(","):
            self.take()
            a.append(self.expr())
        for e in a:
            for x in e.walk():
                if x.kind in ("ref", "ds", "subquery"):
                    self.err("LIMIT operands must be constant values", tok=f)
        return N("limit", f.pos, offset=a[0] if len(a) == 2 else None, count=a[-1])

    def st_window(self):
        raise AqlError(9, "arangodouble: WINDOW is not emulated")

    def st_return(self):
        f = self.take()
        distinct = False
        if self.iskw("DISTINCT"):
            self.take()
            distinct = True
            if len(self.scopes[-1]) < 2:
                self.err("RETURN DISTINCT can only be used inside a FOR loop", tok=f)
        return N("return", f.pos, expr=self.expr(), distinct=distinct)

    # -- data modification
    def modify(self, kind, special):
        if not self.iskw("IN", "INTO"):
            self.err()
        self.take()
        if self.k.kind not in ("id", "str", "coll", "bind"):
            self.err()
        tok = self.take()
        if tok.kind == "bind":
            self.err(tok=tok)
        node = self.datasource(tok, read=False)
        label = self.ds_label(node)
        if label in self.written:
            self.err(f"access after data-modification by {label}", 1579, tok)
        self.q.writes.append(node)
        opts = self.options(kind) if self.isword("OPTIONS") else None
        self.written.append(label)
        self.specials[-1] |= special
        if len(self.scopes[-1]) == 1:
            self.scopes[-1].append(set())
        return node, opts

    def st_insert(self):
        f = self.take()
        e = self.expr(noin=True)
        ds, o = self.modify("insert", {"NEW", "OLD"})
        return N("insert", f.pos, doc=e, ds=ds, opts=o)

    def st_remove(self):
        f = self.take()
        e = self.expr(noin=True)
        ds, o = self.modify("remove", {"OLD"})
        return N("remove", f.pos, doc=e, ds=ds, opts=o)

    def upd(self, kind):
        f = self.take()
        key = None
        doc = self.expr(noin=True)
        if self.iskw("WITH"):
            self.take()
            key = doc
            doc = self.expr(noin=True)
        ds, o = self.modify(kind, {"NEW", "OLD"})
        return N(kind, f.pos, key=key, doc=doc, ds=ds, opts=o)

    def st_update(self):
        return self.upd("update")

    def st_replace(self):
        return self.upd("replace")

    def st_upsert(self):
        f = self.take()
        filt = search = None
        if self.iskw("FILTER"):
            self.take()
            self.current += 1
            filt = self.expr()
            self.current -= 1
        elif self.isop("{"):
            search = self.obj()
        elif self.k.kind == "bind":
            search = self.expr()
        else:
            self.err()
        self.kw("INSERT")
        ins = self.expr()
        mode = self.kw("UPDATE", "REPLACE").val.lower()
        had = "OLD" in self.specials[-1]
        self.specials[-1].add("OLD")
        u = self.expr(noin=True)
        if not had:
            self.specials[-1].discard("OLD")
        ds, o = self.modify("upsert", {"NEW", "OLD"})
        return N(
            "upsert",
            f.pos,
            search=search,
            filter=filt,
            insert=ins,
            update=u,
            mode=mode,
            ds=ds,
            opts=o,
        )

    def options(self, ctx):
        t = self.take()
        e = self.expr() if ctx in ("for", "search", "traversal", "path") else self.obj()
        if e.kind != "object":
            self.err("OPTIONS must be an object literal", tok=t)
        allowed = {"object", "elem", "array", "lit", "unary"}
        if ctx in ("insert", "update", "replace", "remove", "upsert"):
            allowed = allowed | {"bind"}  # python-arango's own update_match() binds keepNull
        for x in e.walk():
            if x.kind not in allowed:
                self.err("query options must be readable at query compile time", 1575, t)
        for el in e.items:
            if el.name is None:
                self.err("query options must be readable at query compile time", 1575, t)
        e.context = ctx
        e.unknown = [el.name for el in e.items if el.name not in OPTIONS[ctx]]
        return e

    # -- expressions
    def expr(self, bp=0, noin=False):
        left = self.unary(noin)
        while True:
            k = self.k
            if k.kind not in ("op", "kw"):
                return left
            v = k.val
            if k.kind == "kw" and (v in QUANTIFIERS or v == "AT LEAST"):
                d = 1
                if v == "AT LEAST":
                    depth, d = 0, 1
                    while True:
                        p = self.peek(d)
                        if p.kind == "end":
                            self.err()
                        depth += (p.kind == "op" and p.val == "(") - (
                            p.kind == "op" and p.val == ")"
                        )
                        d += 1
                        if depth == 0:
                            break
                nx = self.peek(d)
                if not (
                    (nx.kind == "op" and nx.val in COMPARE)
                    or (nx.kind == "kw" and nx.val in ("IN", "NOT IN"))
                ):
                    return left
                lbp = BINDING[nx.val]
                if lbp <= bp or (noin and nx.val == "IN"):
                    return left
                self.take()
                atleast = None
                if v == "AT LEAST":
                    self.op("(")
                    atleast = self.expr()
                    self.op(")")
                o = self.take()
                left = N(
                    "quant",
                    k.pos,
                    quant=v,
                    op=o.val,
                    left=left,
                    right=self.expr(lbp, noin),
                    atleast=atleast,
                )
                continue
            if (
                v == "NOT"
                and k.kind == "kw"
                and self.peek().val == "LIKE"
                and self.peek().kind == "kw"
            ):
                if bp >= 50:
                    return left
                self.take()
                self.take()
                left = N(
                    "unary",
                    k.pos,
                    op="!",
                    arg=N("binary", k.pos, op="LIKE", left=left, right=self.expr(50, noin)),
                )
                continue
            if v not in BINDING or (noin and v == "IN"):
                return left
            lbp = BINDING[v]
            if lbp <= bp:
                return left
            self.take()
            if v == "?":
                a = None
                if self.isop(":"):
                    self.take()
                else:
                    a = self.expr(0)
                    self.op(":")
                left = N("ternary", k.pos, cond=left, yes=a, no=self.expr(lbp - 1, noin))
                continue
            v = {"&&": "AND", "||": "OR"}.get(v, v)
            left = N("binary", k.pos, op=v, left=left, right=self.expr(lbp, noin))

    def unary(self, noin):
        if self.isop("+", "-", "!") or self.iskw("NOT"):
            t = self.take()
            return N("unary", t.pos, op="!" if t.val == "NOT" else t.val, arg=self.unary(noin))
        return self.postfix()

    def postfix(self):
        k = self.k
        if k.kind == "str":
            self.take()
            return N("lit", k.pos, value=k.val)
        if k.kind == "num":
            self.take()
            if k.val[:2].lower() in ("0x", "0b"):
                return N("lit", k.pos, value=int(k.val, 0))
            if re.fullmatch(r"[0-9]+", k.val):
                return N("lit", k.pos, value=int(k.val))
            return N("lit", k.pos, value=float(k.val))
        if self.iskw("NULL", "TRUE", "FALSE"):
            self.take()
            return N("lit", k.pos, value={"NULL": None, "TRUE": True, "FALSE": False}[k.val])
        e = self.reference()
        while True:
            if self.isop("."):
                dot = self.take()
                if self.k.kind == "id":
                    e = N("attr", dot.pos, name=self.take().val, obj=e)
                elif self.k.kind == "bind":
                    tok = self.take()
                    self.q.binds.add(tok.val)
                    e = N("battr", dot.pos, bind=tok.val, obj=e)
                else:
                    self.err()
            elif self.isop("["):
                b = self.take()
                if self.isop("*"):
                    e = self.expansion(e)
                elif self.isop("?"):
                    e = self.question(e)
                else:
                    x = self.expr()
                    self.op("]")
                    e = N("index", b.pos, obj=e, idx=x)
            else:
                return e

    def expansion(self, e):
        t = self.take()
        levels = 1
        while self.isop("*"):
            self.take()
            levels += 1
        node = N(
            "expand",
            t.pos,
            obj=e,
            levels=levels,
            filter=None,
            offset=None,
            limit=None,
            ret=None,
            tail=[],
        )
        self.current += 1
        if self.iskw("FILTER"):
            self.take()
            node.filter = self.expr()
        if self.iskw("LIMIT"):
            self.take()
            node.limit = self.expr()
            if self.isop(","):
                self.take()
                node.offset, node.limit = node.limit, self.expr()
        if self.iskw("RETURN"):
            self.take()
            node.ret = self.expr()
        self.current -= 1
        self.op("]")
        # what follows applies to every element: a[*].b.c, a[*].b[0]
        while self.isop(".", "["):
            star = [self.peek(d).kind == "op" and self.peek(d).val in "*?" for d in (1, 2)]
            if self.isop("[") and star[0]:
                if star[1] or self.peek().val == "?":
                    break  # [**] contracts the whole result, not each element
                self.take()
                node.tail.append(self.expansion(N("ref", self.k.pos, name=ELEMENT)))
                break
            if self.take().val == ".":
                if self.k.kind == "id":
                    node.tail.append(N("lit", self.k.pos, value=self.take().val))
                elif self.k.kind == "bind":
                    tok = self.take()
                    self.q.binds.add(tok.val)
                    node.tail.append(N("bind", tok.pos, name=tok.val))
                else:
                    self.err()
            else:
                node.tail.append(self.expr())
                self.op("]")
        return node

    def question(self, e):
        t = self.take()
        node = N("question", t.pos, obj=e, quant="ANY", count=None, filter=None)
        self.current += 1
        if self.iskw(*QUANTIFIERS) and self.peek().val == "FILTER":
            node.quant = self.take().val
        elif self.iskw("AT LEAST"):
            self.take()
            self.op("(")
            node.quant, node.count = "AT LEAST", self.expr()
            self.op(")")
        elif not self.isop("]") and not self.iskw("FILTER"):
            node.quant, node.count = "COUNT", self.expr()
        if self.iskw("FILTER"):
            self.take()
            node.filter = self.expr()
        self.current -= 1
        self.op("]")
        return node

    def args(self):
        self.op("(")
        out = []
        while not self.isop(")"):
            out.append(self.subquery(self.k.pos) if self.iskw(*STATEMENTS) else self.expr())
            if not self.isop(")"):
                self.op(",")
                if self.isop(")"):
                    self.err()
        self.take()
        return out

    def reference(self):
        k = self.k
        if k.kind == "id":
            self.take()
            if self.isop("::"):
                raise AqlError(1582, "user-defined function not found")
            if self.isop("(") and not k.quoted:
                args = self.args()
                name = k.val.upper()
                if name == "DOCUMENT" and self.written:
                    self.err("access after data-modification by DOCUMENT()", 1579, k)
                for a in args:
                    if a.kind == "ds" and self.ds_label(a) in self.written:
                        self.err(f"access after data-modification by {self.ds_label(a)}", 1579, k)
                return N("call", k.pos, name=name, args=args)
            if self.known(k.val):
                return N("ref", k.pos, name=k.val)
            if k.val in ("NEW", "OLD") and k.val in self.specials[-1]:
                return N("ref", k.pos, name=k.val)
            if k.val in ("CURRENT", "$CURRENT") and self.current:
                return N("ref", k.pos, name="CURRENT")
            return self.datasource(k)
        if k.kind == "bind":
            self.take()
            self.q.binds.add(k.val)
            return N("bind", k.pos, name=k.val)
        if k.kind == "coll":
            return self.datasource(self.take())
        if self.iskw("LIKE") and self.peek().kind == "op" and self.peek().val == "(":
            self.take()
            return N("call", k.pos, name=k.val, args=self.args())
        if self.isop("("):
            self.take()
            e = (
                self.subquery(k.pos)
                if self.k.kind == "kw" and self.k.val in STATEMENTS
                else self.expr()
            )
            self.op(")")
            return e
        if self.isop("["):
            self.take()
            items = []
            while not self.isop("]"):
                items.append(self.expr())
                if not self.isop("]"):
                    self.op(",")
            self.take()
            return N("array", k.pos, items=items)
        if self.isop("{"):
            return self.obj()
        self.err()
        return None

    def obj(self):
        k = self.op("{")
        items = []
        while not self.isop("}"):
            t = self.k
            if t.kind in ("id", "str"):
                self.take()
                if self.isop(":"):
                    self.take()
                    items.append(N("elem", t.pos, name=t.val, key=None, value=self.expr()))
                elif t.kind == "id":
                    if not (self.known(t.val) or t.val in self.specials[-1]):
                        self.err(f"unknown variable '{t.val}'", 1512, t)
                    items.append(
                        N("elem", t.pos, name=t.val, key=None, value=N("ref", t.pos, name=t.val))
                    )
                else:
                    self.err()
            elif t.kind == "bind":
                self.take()
                self.q.binds.add(t.val)
                self.op(":")
                items.append(
                    N("elem", t.pos, name=None, key=N("bind", t.pos, name=t.val), value=self.expr())
                )
            elif self.isop("["):
                self.take()
                n = self.expr()
                self.op("]")
                self.op(":")
                items.append(N("elem", t.pos, name=None, key=n, value=self.expr()))
            else:
                self.err()
            if not self.isop("}"):
                self.op(",")
        self.take()
        return N("object", k.pos, items=items)


def pattern_names(p):
    if p is None:
        return []
    if isinstance(p, Tok):
        return [p]
    kind, items = p
    subs = items if kind == "array" else [s for _, s in items]
    return [n for s in subs for n in pattern_names(s)]


def parse(text, binds=None):
    if not isinstance(text, str):
        raise AqlError(1501, "AQL: query must be a string")
    if not text.strip():
        raise AqlError(1502, "AQL: query is empty")
    return Parser(text, binds).parse()

"""The shape that a query needs to use a vector index."""

from __future__ import annotations

from tests.support.arangodouble.errors import AqlError
from tests.support.arangodouble.tree import N


class VectorShape:
    """Checks the statements of one level: error 1554 for another shape, 1555 for
    an untrained index.
    """

    def __init__(self, compiler):
        self.compiler = compiler

    def check(self, sts):
        """APPROX_NEAR_*: FOR coll, at most one FILTER, [LET sim =], SORT by it alone,
        LIMIT right after.
        """

        def calls(v):
            out = []
            todo = [v]
            while todo:
                x = todo.pop()
                if isinstance(x, N):
                    if x.kind == "subquery":
                        continue
                    if x.kind == "call" and x.name.startswith("APPROX_NEAR_"):
                        out.append(x)
                    todo.extend(x.__dict__.values())
                elif isinstance(x, (list, tuple)):
                    todo.extend(x)
            return out

        def fail(why):
            raise AqlError(1554, f"AQL: failed vector search: {why} (while optimizing plan)")

        for i, st in enumerate(sts):
            found = calls(st)
            if st.kind == "let":
                for vname, _, e in st.items:
                    if calls(e):
                        if e.kind != "call" or vname is None:
                            fail("the APPROX_NEAR call must be assigned as it is")
                        self.near_after(sts, i, vname, fail)
                continue
            if not found:
                continue
            if st.kind != "sort":
                fail(f"APPROX_NEAR used in {st.kind.upper()}")
            if len(st.items) != 1 or st.items[0][0] is not found[0]:
                fail("SORT must be by the APPROX_NEAR value alone")
            self.near_sort(sts, i, found[0], fail)

    def near_after(self, sts, i, vname, fail):
        def uses(st):
            return any(x.kind == "ref" and x.name == vname for x in st.walk())

        for j in range(i + 1, len(sts)):
            st = sts[j]
            if st.kind == "sort" and uses(st):
                if len(st.items) != 1 or st.items[0][0].kind != "ref":
                    fail("SORT must be by the APPROX_NEAR value alone")
                call = next(e for n, _, e in sts[i].items if n == vname)
                return self.near_sort(sts, j, call, fail)
            if st.kind not in ("let", "filter") or uses(st):
                break
        fail("the similarity must be used by SORT and LIMIT first")
        return None

    def near_sort(self, sts, i, call, fail):
        want = "ASC" if call.name == "APPROX_NEAR_L2" else "DESC"
        if sts[i].items[0][1] != want:
            fail(f"SORT direction must be {want}")
        if i + 1 >= len(sts) or sts[i + 1].kind != "limit":
            fail("LIMIT must directly follow SORT")
        j = max((k for k in range(i) if sts[k].kind == "for"), default=-1)
        if j < 0 or sts[j].src.kind != "ds" or self.compiler.resolve(sts[j].src)[0] != "collection":
            fail("FOR must iterate a collection")
        between = [s.kind for s in sts[j + 1 : i]]
        if set(between) - {"filter", "let"} or between.count("filter") > 1:
            fail("only one FILTER is allowed between FOR and SORT")
        coll = self.compiler.rt.access.collection(self.compiler.resolve(sts[j].src)[1])
        metric = {"APPROX_NEAR_COSINE": "cosine", "APPROX_NEAR_L2": "l2"}.get(call.name)
        for a in call.args[:2]:
            e = self.compiler.equality(
                N("binary", a.pos, op="==", left=a, right=N("lit", a.pos, value=0)),
                sts[j].var,
                {sts[j].var},
            )
            field = e and e[1]
            ix = next(
                (
                    x
                    for x in coll.indexes
                    if x.type == "vector"
                    and x.fields == [field]
                    and x.body["params"]["metric"] == metric
                ),
                None,
            )
            if field and ix:
                if ix.body["trainingState"] != "ready":
                    raise AqlError(
                        1555, f"AQL: vector index '{ix.name}' is not ready: it is not trained yet"
                    )
                other = call.args[1] if a is call.args[0] else call.args[0]
                if self.compiler.is_constant(other):
                    v = self.compiler.constant(other)
                    dim = ix.body["params"]["dimension"]
                    if type(v) is not list or len(v) != dim:
                        raise AqlError(
                            10,
                            f"AQL: a vector must be of dimension {dim}, but is "
                            f"{len(v) if type(v) is list else 'no array'}",
                        )
                sts[i].near = sts[j].near = True
                return
        fail("no matching vector index")

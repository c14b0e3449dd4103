"""AQL functions of types and numbers."""

from __future__ import annotations

import math
import random
import time

from tests.support.arangodouble.errors import AqlError
from tests.support.arangodouble.function_table import MANY, arrays, fn, type_warning
from tests.support.arangodouble.values import (
    is_num,
    num,
    sort_key,
    to_array,
    to_number,
    to_string,
    truthy,
    type_rank,
)

# -- types ----------------------------------------------------------------------------------------
for _names, _test in {
    "IS_NULL": lambda v: v is None,
    "IS_BOOL": lambda v: type(v) is bool,
    "IS_NUMBER": is_num,
    "IS_STRING": lambda v: type(v) is str,
    "IS_ARRAY IS_LIST": lambda v: type(v) is list,
    "IS_OBJECT IS_DOCUMENT": lambda v: type(v) is dict,
}.items():
    fn(_names, 1)(lambda ctx, v, _t=_test: _t(v))
fn("TO_BOOL", 1)(lambda ctx, v: truthy(v))
fn("TO_NUMBER", 1)(lambda ctx, v: num(to_number(v)))
fn("TO_STRING", 1)(lambda ctx, v: to_string(v))
fn("TO_ARRAY TO_LIST", 1)(lambda ctx, v: list(to_array(v)))
fn("TYPENAME", 1)(
    lambda ctx, v: ["null", "bool", "number", "string", "array", "object"][type_rank(v)]
)
fn("NOOPT PASSTHRU", 1)(lambda ctx, v: v)


@fn("IS_KEY", 1)
def _is_key(ctx, v):
    from .storage import valid_key

    return type(v) is str and valid_key(v)


@fn("NOT_NULL", 1, MANY)
def _not_null(ctx, *args):
    return next((a for a in args if a is not None), None)


@fn("ASSERT", 2)
def _assert(ctx, cond, msg):
    if not truthy(cond):
        raise AqlError(1593, f"AQL: {to_string(msg)}")
    return True


@fn("WARN", 2)
def _warn(ctx, cond, msg):
    if not truthy(cond):
        ctx.warn(1594, to_string(msg))
    return truthy(cond)


@fn("FAIL", 0, 1)
def _fail(ctx, msg=""):
    raise AqlError(1569, f"AQL: FAIL({to_string(msg)}) called")


@fn("SLEEP", 1)
def _sleep(ctx, seconds):
    end = time.monotonic() + max(0, to_number(seconds))
    while (left := end - time.monotonic()) > 0:
        ctx.check_time()
        time.sleep(min(left, 0.02))


# -- numbers --------------------------------------------------------------------------------------
def _math(f):
    def call(ctx, *args):
        try:
            return num(f(*[to_number(a) for a in args]))
        except (ValueError, ZeroDivisionError, OverflowError):
            return None

    return call


for _names, _f, _n in [
    ("ABS", abs, 1),
    ("FLOOR", math.floor, 1),
    ("CEIL", math.ceil, 1),
    ("SQRT", math.sqrt, 1),
    ("ROUND", lambda x: math.floor(x + 0.5), 1),
    ("EXP", math.exp, 1),
    ("EXP2", lambda x: 2**x, 1),
    ("LOG", math.log, 1),
    ("LOG2", math.log2, 1),
    ("LOG10", math.log10, 1),
    ("SIN", math.sin, 1),
    ("COS", math.cos, 1),
    ("TAN", math.tan, 1),
    ("ASIN", math.asin, 1),
    ("ACOS", math.acos, 1),
    ("ATAN", math.atan, 1),
    ("ATAN2", math.atan2, 2),
    ("DEGREES", math.degrees, 1),
    ("RADIANS", math.radians, 1),
    ("POW", lambda a, b: float(a) ** b, 2),
    ("PI", lambda: math.pi, 0),
]:
    fn(_names, _n)(_math(_f))
fn("RAND RANDOM", 0)(lambda ctx: random.random())


@fn("RANGE", 2, 3)
def _range(ctx, a, b, step=None):
    a = to_number(a)
    b = to_number(b)
    step = (1 if a <= b else -1) if step is None else to_number(step)
    if step == 0 or (a < b and step < 0) or (a > b and step > 0):
        ctx.warn(1542, "invalid argument type in call to function 'RANGE()'")
        return None
    return [num(a + i * step) for i in range(int((b - a) / step + 1e-9) + 1)]


def _numbers(ctx, name, v):
    if type(v) is not list:
        type_warning(ctx, name)
        return None
    out = [x for x in v if x is not None]
    if not all(is_num(x) for x in out):
        type_warning(ctx, name)
        return None
    return out


@fn("MIN", 1)
def _min(ctx, v):
    return (
        min((x for x in v if x is not None), key=sort_key, default=None)
        if arrays(ctx, "MIN", v)
        else None
    )


@fn("MAX", 1)
def _max(ctx, v):
    return (
        max((x for x in v if x is not None), key=sort_key, default=None)
        if arrays(ctx, "MAX", v)
        else None
    )


def _stat(names, f):
    name = names.split()[0]

    @fn(names, 1)
    def call(ctx, v):
        xs = _numbers(ctx, name, v)
        if xs is None:
            return None
        return num(f(xs))


def _variance(xs, sample):
    n = len(xs) - (1 if sample else 0)
    if n <= 0:
        return None
    mean = sum(xs) / len(xs)
    return sum((x - mean) ** 2 for x in xs) / n


def _root(v):
    return None if v is None else math.sqrt(v)


def _median(xs):
    xs = sorted(xs)
    m = len(xs) // 2
    return None if not xs else xs[m] if len(xs) % 2 else (xs[m - 1] + xs[m]) / 2


_stat("SUM", sum)
_stat("PRODUCT", math.prod)
_stat("AVERAGE AVG", lambda xs: sum(xs) / len(xs) if xs else None)
_stat("MEDIAN", _median)
_stat("VARIANCE_POPULATION VARIANCE", lambda xs: _variance(xs, False))
_stat("VARIANCE_SAMPLE", lambda xs: _variance(xs, True))
_stat("STDDEV_POPULATION STDDEV", lambda xs: _root(_variance(xs, False)))
_stat("STDDEV_SAMPLE", lambda xs: _root(_variance(xs, True)))


@fn("PERCENTILE", 2, 3)
def _percentile(ctx, v, p, method="rank"):
    xs = sorted(_numbers(ctx, "PERCENTILE", v) or [])
    if not xs or not is_num(p) or not 0 < p <= 100:
        return None
    if method == "interpolation":
        pos = p / 100 * (len(xs) + 1)
        i = int(pos)
        if i < 1 or i >= len(xs):
            return xs[-1] if i >= len(xs) else None
        return num(xs[i - 1] + (pos - i) * (xs[i] - xs[i - 1]))
    return xs[min(len(xs), max(1, math.ceil(p / 100 * len(xs)))) - 1]


def _bits(name, f):
    @fn(name, 1, 2)
    def call(ctx, a, b=None):
        xs = a if b is None else [a, b]
        if type(xs) is not list or not all(x is None or (type(x) is int and x >= 0) for x in xs):
            type_warning(ctx, name)
            return None
        xs = [x for x in xs if x is not None]
        out = xs[0] if xs else None
        for x in xs[1:]:
            out = f(out, x)
        return out


_bits("BIT_AND", lambda a, b: a & b)
_bits("BIT_OR", lambda a, b: a | b)
_bits("BIT_XOR", lambda a, b: a ^ b)

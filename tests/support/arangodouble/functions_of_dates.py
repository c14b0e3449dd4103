"""AQL functions of vectors and dates."""

from __future__ import annotations

import datetime as dt
import math
import re
from operator import mul

from tests.support.arangodouble.errors import refuse
from tests.support.arangodouble.function_table import FUNCTIONS, fn, type_warning
from tests.support.arangodouble.values import is_num, num, to_number, to_string, truthy


# -- vectors --------------------------------------------------------------------------------------
def _vector_pair(ctx, name, f, a, b):
    if type(a) is not list or type(b) is not list or not a or not b:
        return type_warning(ctx, name)
    for m, other, flip in ((a, b, False), (b, a, True)):
        if any(type(r) is list for r in m):
            if any(type(x) is list for x in other):
                return type_warning(ctx, name)
            rows = [
                _vector_pair(ctx, name, f, other, r)
                if flip
                else _vector_pair(ctx, name, f, r, other)
                for r in m
            ]
            return None if any(r is None for r in rows) else rows
    if len(a) != len(b) or not set(map(type, a)) | set(map(type, b)) <= {int, float}:
        return type_warning(ctx, name)
    return f(ctx, a, b)


def cosine(ctx, a, b):
    na = math.sqrt(sum(map(mul, a, a)))
    nb = math.sqrt(sum(map(mul, b, b)))
    if na == 0 or nb == 0:
        return ctx.warn(1561, "invalid arithmetic value")
    return num(float(max(-1.0, min(1.0, sum(map(mul, a, b)) / (na * nb)))))


def l2(ctx, a, b):
    return num(math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b, strict=False))))


def l1(ctx, a, b):
    return num(float(sum(abs(x - y) for x, y in zip(a, b, strict=False))))


for _name, _f in (("COSINE_SIMILARITY", cosine), ("L2_DISTANCE", l2), ("L1_DISTANCE", l1)):
    fn(_name, 2)(lambda ctx, a, b, _n=_name, _g=_f: _vector_pair(ctx, _n, _g, a, b))
for _name, _g in (("APPROX_NEAR_COSINE", "COSINE_SIMILARITY"), ("APPROX_NEAR_L2", "L2_DISTANCE")):
    fn(_name, 2, 3)(lambda ctx, a, b, o=None, _g=_g: FUNCTIONS[_g][2](ctx, a, b))


# -- dates ----------------------------------------------------------------------------------------
_DATE = re.compile(
    r"^\s*(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?"
    r"(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?\s*(Z|[+-]\d{2}:?\d{2})?\s*$",
    re.I,
)
_UTC = dt.UTC


def parse_date(v):
    try:
        if is_num(v):
            return dt.datetime(1970, 1, 1, tzinfo=_UTC) + dt.timedelta(milliseconds=v)
        m = _DATE.match(v) if type(v) is str else None
        if not m:
            return None
        y, mo, d, h, mi, s = [int(g) if g else None for g in m.groups()[:6]]
        d = dt.datetime(
            y,
            mo or 1,
            d or 1,
            h or 0,
            mi or 0,
            s or 0,
            int((m.group(7) or "0").ljust(3, "0")[:3]) * 1000,
            _UTC,
        )
        z = m.group(8)
        if z and z.upper() != "Z":
            off = dt.timedelta(hours=int(z[1:3]), minutes=int(z[-2:]))
            d = d - off if z[0] == "+" else d + off
    except (ValueError, OverflowError):
        return None
    return d


def _date(ctx, args):
    v = args[0] if len(args) == 1 else None
    if len(args) > 1:
        a = (
            [int(to_number(x)) for x in args] + [1, 1, 0, 0, 0, 0][len(args) - 1 :]
            if len(args) < 7
            else list(map(to_number, args))
        )
        try:
            return dt.datetime(*a[:6], a[6] * 1000, _UTC)
        except (ValueError, TypeError, IndexError):
            v = None
    d = parse_date(v)
    if d is None:
        ctx.warn(1572, "invalid date value")
    return d


def _utc(v, zone):
    if zone is not None:
        raise refuse("time zones")
    return [v]


def iso(d):
    return d.strftime("%Y-%m-%dT%H:%M:%S.").rjust(20, "0") + f"{d.microsecond // 1000:03d}Z"


def _millis(d):
    return (d - dt.datetime(1970, 1, 1, tzinfo=_UTC)) // dt.timedelta(milliseconds=1)


fn("DATE_NOW", 0)(lambda ctx: ctx.now_ms)
for _name, _g in {"DATE_ISO8601": iso, "DATE_TIMESTAMP": _millis}.items():
    fn(_name, 1, 7)(lambda ctx, *a, _g=_g: (lambda d: d and _g(d))(_date(ctx, a)))
for _name, _g in {
    "DATE_YEAR": lambda d: d.year,
    "DATE_MONTH": lambda d: d.month,
    "DATE_DAY": lambda d: d.day,
    "DATE_HOUR": lambda d: d.hour,
    "DATE_MINUTE": lambda d: d.minute,
    "DATE_SECOND": lambda d: d.second,
    "DATE_MILLISECOND": lambda d: d.microsecond // 1000,
    "DATE_DAYOFWEEK": lambda d: d.isoweekday() % 7,
    "DATE_DAYOFYEAR": lambda d: d.timetuple().tm_yday,
    "DATE_LEAPYEAR": lambda d: d.year % 4 == 0 and (d.year % 100 != 0 or d.year % 400 == 0),
}.items():
    fn(_name, 1, 2)(
        lambda ctx, v, zone=None, _g=_g: (lambda d: None if d is None else _g(d))(
            _date(ctx, _utc(v, zone))
        )
    )
fn("IS_DATESTRING", 1)(lambda ctx, v: type(v) is str and parse_date(v) is not None)
_UNITS = {
    "y": "year",
    "m": "month",
    "w": "week",
    "d": "day",
    "h": "hour",
    "i": "minute",
    "s": "second",
    "f": "millisecond",
}
_SPAN = {
    "week": 604800000,
    "day": 86400000,
    "hour": 3600000,
    "minute": 60000,
    "second": 1000,
    "millisecond": 1,
}


def _unit(ctx, u):
    u = to_string(u).lower()
    u = _UNITS.get(u, u[:-1] if u.endswith("s") else u)
    if u in _SPAN or u in ("year", "month"):
        return u
    return ctx.warn(1572, "invalid date value")


def _add(ctx, d, amount, unit):
    if unit in ("year", "month"):
        months = d.year * 12 + d.month - 1 + int(amount) * (12 if unit == "year" else 1)
        first = d.replace(year=months // 12, month=months % 12 + 1, day=1)
        return first + dt.timedelta(days=d.day - 1)
    return d + dt.timedelta(milliseconds=amount * _SPAN[unit])


def _date_add(sign):
    def call(ctx, date, amount, unit=None):
        d = _date(ctx, [date])
        if d is None:
            return None
        if unit is None:
            m = re.fullmatch(
                r"P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?",
                to_string(amount),
            )
            if not m:
                return ctx.warn(1572, "invalid date value")
            units = ("year", "month", "week", "day", "hour", "minute", "second")
            for n, u in zip(m.groups(), units, strict=False):
                d = _add(ctx, d, sign * int(n or 0), u)
            return iso(d)
        u = _unit(ctx, unit)
        return u and iso(_add(ctx, d, sign * to_number(amount), u))

    return call


fn("DATE_ADD", 2, 3)(_date_add(1))
fn("DATE_SUBTRACT", 2, 3)(_date_add(-1))


@fn("DATE_DIFF", 3, 6)
def _date_diff(ctx, a, b, unit, as_float=False, zone=None, zone2=None):
    x = _date(ctx, _utc(a, zone))
    y = _date(ctx, [b])
    u = _unit(ctx, unit)
    if x is None or y is None or u is None:
        return None
    span = _SPAN.get(u) or {"year": 31556952000, "month": 2629746000}[u]
    v = (_millis(y) - _millis(x)) / span
    return num(v) if truthy(as_float) else math.trunc(v)


@fn("DATE_TRUNC", 2, 3)
def _date_trunc(ctx, v, unit, zone=None):
    d = _date(ctx, _utc(v, zone))
    u = _unit(ctx, unit)
    if d is None or u is None:
        return None
    if u == "week":
        return ctx.warn(1572, "invalid date value")
    names = ["year", "month", "day", "hour", "minute", "second", "millisecond"]
    parts = [d.year, d.month, d.day, d.hour, d.minute, d.second, d.microsecond]
    low = [1, 1, 1, 0, 0, 0, 0]
    i = names.index(u) + 1
    return iso(dt.datetime(*(parts[:i] + low[i:]), tzinfo=_UTC))


@fn("DATE_DAYS_IN_MONTH", 1)
def _days_in_month(ctx, v):
    d = _date(ctx, [v])
    return (
        d and ((d.replace(day=28) + dt.timedelta(days=4)).replace(day=1) - dt.timedelta(days=1)).day
    )


@fn("DATE_FORMAT", 2, 3)
def _date_format(ctx, v, fmt, zone=None):
    d = _date(ctx, _utc(v, zone))
    if d is None:
        return None
    table = {
        "%yyyy": f"{d.year:04d}",
        "%yy": f"{d.year % 100:02d}",
        "%y": str(d.year),
        "%mm": f"{d.month:02d}",
        "%m": str(d.month),
        "%dd": f"{d.day:02d}",
        "%d": str(d.day),
        "%hh": f"{d.hour:02d}",
        "%h": str(d.hour),
        "%ii": f"{d.minute:02d}",
        "%i": str(d.minute),
        "%ss": f"{d.second:02d}",
        "%s": str(d.second),
        "%fff": f"{d.microsecond // 1000:03d}",
        "%z": iso(d),
        "%t": str(_millis(d)),
        "%%": "%",
        "%": "",
    }
    return re.sub(
        "%(yyyy|yy|y|mm|m|dd|d|hh|h|ii|i|ss|s|fff|z|t|%|)(?![a-z])",
        lambda m: table["%" + m.group(1)],
        to_string(fmt),
    )

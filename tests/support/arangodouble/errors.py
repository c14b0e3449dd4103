"""Error numbers, their default texts and HTTP codes."""

from __future__ import annotations

TEXT = {
    9: "not implemented",
    10: "bad parameter",
    11: "not authorized to execute this request",
    17: "type error",
    18: "timeout waiting for lock",
    28: "locked",
    32: "resource limit exceeded",
    400: "bad parameter",
    404: "unknown path",
    405: "method not supported",
    600: "invalid JSON object",
    1200: "conflict",
    1202: "document not found",
    1203: "collection or view not found",
    1205: "illegal document identifier",
    1207: "duplicate name",
    1208: "illegal name",
    1210: "unique constraint violated",
    1212: "index not found",
    1213: "cross collection request not allowed",
    1221: "illegal document key",
    1222: "unexpected document key",
    1226: "missing document key",
    1227: "invalid document type",
    1228: "database not found",
    1229: "database name invalid",
    1230: "operation only allowed in system database",
    1233: "edge attribute missing or invalid",
    1500: "query killed",
    1501: "query parse error",
    1502: "query is empty",
    1562: "division by zero",
    1600: "cursor not found",
    1620: "document validation failed",
    1652: "unregistered collection used in transaction",
    1653: "disallowed operation inside transaction",
    1654: "transaction aborted",
    1655: "transaction not found",
    1924: "graph not found",
    1925: "graph already exists",
    1942: "must not drop collection, part of graph",
}
_NOT_FOUND = {404, 1202, 1203, 1212, 1228, 1582, 1591, 1600, 1655, 1924, 1926, 1930, 1947}
_CONFLICT = {18, 28, 1200, 1207, 1210, 1601, 1925}


def http_code(num):
    if num in _NOT_FOUND:
        return 404
    if num in _CONFLICT:
        return 409
    return {
        9: 501,
        11: 401,
        32: 500,
        405: 405,
        1230: 403,
        1500: 410,
        1654: 410,
        1942: 403,
        503: 503,
    }.get(num, 400)


class ArangoError(Exception):
    """Anything the server answers with error: true."""

    def __init__(self, num, msg=None, code=None, extra=None):
        self.num, self.msg = num, msg or TEXT.get(num, "error")
        self.code = code or http_code(num)
        self.extra = extra or {}
        super().__init__(f"[{self.num}] {self.msg}")

    def body(self):
        return {
            "error": True,
            "code": self.code,
            "errorNum": self.num,
            "errorMessage": self.msg,
            **self.extra,
        }


class AqlError(ArangoError):
    pass


def refuse(what):
    return ArangoError(9, f"arangodouble does not emulate {what}", 501)

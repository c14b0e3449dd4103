"""python -m arangodouble --port 0 --password secret"""

import argparse
import contextlib

from tests.support.arangodouble.server import ArangoDouble


def main():
    p = argparse.ArgumentParser(
        prog="arangodouble", description="an in-memory test double of an ArangoDB single server"
    )
    p.add_argument("--host", default="127.0.0.1")
    p.add_argument("--port", type=int, default=8529)
    p.add_argument("--password", default="", help="password of root")
    p.add_argument(
        "--transaction-idle",
        type=float,
        default=60.0,
        help="idle seconds before a transaction is aborted",
    )
    p.add_argument("--cursor-ttl", type=float, default=30.0)
    p.add_argument("--max-transaction", type=int, help="bytes that a stream transaction may write")
    a = p.parse_args()
    double = ArangoDouble(
        a.host,
        a.port,
        a.password,
        a.transaction_idle,
        a.cursor_ttl,
        max_transaction=a.max_transaction,
    )
    print(double.url, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        double.server.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    main()

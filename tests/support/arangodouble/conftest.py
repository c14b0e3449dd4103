import json
import urllib.request
from pathlib import Path

import pytest
from arango import ArangoClient
from arango.http import DefaultHTTPClient

from tests.support.arangodouble import ArangoDouble


@pytest.fixture(scope="session")
def double():
    d = ArangoDouble(password="secret").start()
    yield d
    d.stop()


@pytest.fixture
def url(double):
    double.state.reset()
    return double.url


@pytest.fixture
def client(url):
    return ArangoClient(
        hosts=url, http_client=DefaultHTTPClient(request_timeout=5, retry_attempts=0)
    )


@pytest.fixture
def db(client):
    client.db("_system", password="secret").create_database("t")
    return client.db("t", password="secret")


@pytest.fixture
def run(db):
    def call(query, binds=None, **kw):
        return list(db.aql.execute(query, bind_vars=binds or {}, **kw))

    return call


@pytest.fixture
def control(url):
    def call(method, path, body=None):
        req = urllib.request.Request(
            url + path, method=method, data=None if body is None else json.dumps(body).encode()
        )
        with urllib.request.urlopen(req) as resp:
            return json.load(resp)

    return call


@pytest.fixture
def one(run):
    """Value of RETURN <expression>."""
    return lambda expression, binds=None: run("RETURN " + expression, binds)[0]


STATEMENTS = Path(__file__).with_name("statements.json")


def load_statements():
    return {k: (v["query"], v["binds"]) for k, v in json.loads(STATEMENTS.read_text()).items()}


def code_of(excinfo):
    return excinfo.value.error_code

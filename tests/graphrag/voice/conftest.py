"""A server that takes telephone calls, and the API that it notifies of them."""

import pytest

from datasources.base import Database
from tests.support.agent_life import Api, Sent
from tests.support.phone_calls import PhoneServer, phone_server_on
from tools.http.fetch import HttpAnswer


def ids(sent: Sent) -> HttpAnswer:
    return (
        HttpAnswer(status=201, value={"id": "c-7"})
        if sent.method == "POST"
        else HttpAnswer(status=200)
    )


@pytest.fixture
def api() -> Api:
    return Api(answers={"/calls": ids})


@pytest.fixture
def server(memory: Database, api: Api) -> PhoneServer:
    return phone_server_on(memory, api)

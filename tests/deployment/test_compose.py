"""The Compose files and the Makefile's targets, run without containers: from nothing to the
page on ArangoDB.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from datasources.arango.layout import ALL_COLLECTIONS
from tests.deployment.containers import (
    ARANGO,
    DOCKERFILE,
    POSTGRES,
    ROOT,
    STACKS,
    Containers,
    Stack,
    image_environment,
    instructions,
    users_file,
)
from tests.support.arango import ArangoServer, running_double
from tests.support.postgres import ROLE, PostgresServer
from tests.support.waiting import until

NODE = shutil.which("node")
STAND_IN = Path(__file__).with_name("arangosh.js")
_ID = r"[\w.:-]+"
ALLOWED = re.compile(
    rf"(GET|POST|PUT|DELETE) /_db/nodius/_api/(cursor|transaction)(/{_ID})*"
    rf"|GET /_db/nodius/_api/(version|collection|index|view|gharial|database/current)(/{_ID})*"
    r"|POST /_db/nodius/_api/(explain|query)"
    r"|GET /_db/nodius/_admin/server/role"
)
"""What a user may ask for who has access to the database and may write documents
of its collections.
"""


@pytest.fixture
def containers(tmp_path: Path) -> Containers:
    """A folder with secrets as `make arango-up` makes them."""
    made = Containers(folder=tmp_path, place="")
    docker = (sys.executable, "-m", "tests.deployment.docker_stand_in", str(tmp_path))
    made.program("docker", "env", f"PYTHONPATH={ROOT}", *docker)
    made.make("arango-up")
    return made


@pytest.fixture
def server(containers: Containers) -> Iterator[ArangoServer]:
    with running_double(containers.secret("arango_root")) as made:
        # The double makes a user only together with a database.
        login = {"username": "nodius", "passwd": containers.secret("arango_nodius")}
        made.call("POST", "/_api/database", {"name": "nodius", "users": [login]})
        yield made


@pytest.fixture
def on_postgres(
    tmp_path: Path, postgres_servers: Callable[..., PostgresServer]
) -> tuple[Containers, PostgresServer]:
    """A folder with secrets as `make postgres-up` makes them, and a new server as its image has."""
    server = postgres_servers(auth="scram-sha-256")
    made = Containers(folder=tmp_path, place=f"127.0.0.1:{server.port}", stack=POSTGRES)
    docker = (sys.executable, "-m", "tests.deployment.docker_stand_in", str(tmp_path))
    made.program("docker", "env", f"PYTHONPATH={ROOT}", *docker)
    made.make("postgres-up")
    server.execute(
        f"DROP ROLE {ROLE}",
        f"ALTER ROLE postgres PASSWORD '{made.secret('postgres_admin')}'",
        "CREATE DATABASE nodius",
    )
    return made, server


def at(containers: Containers, server: ArangoServer) -> Containers:
    return Containers(folder=containers.folder, place=server.place)


@contextmanager
def serving(containers: Containers, said: list[str]) -> Iterator[httpx2.Client]:
    """Run the service as compose.yaml does, on a free port of loopback; keep what it says."""
    environment = containers.environment("nodius", NODIUS_HOST="127.0.0.1", NODIUS_PORT="0")
    with subprocess.Popen(
        containers.command("nodius"),
        cwd=containers.folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            address = None
            while address is None:
                line = process.stdout.readline()
                said.append(line)
                assert line, said
                address = re.search(r"http://127\S+/", line)
            with httpx2.Client(base_url=address[0], trust_env=False, timeout=60) as client:
                yield client
        finally:
            process.terminate()
            said.append(process.stdout.read())
        assert process.wait(timeout=20) == 0


def test_starting_makes_secrets_once_that_the_service_can_read(containers: Containers) -> None:
    secrets = {name: containers.secret(name) for name in ARANGO.content["secrets"]}
    assert len(set(secrets.values())) == 3
    for value in secrets.values():
        assert re.fullmatch("[0-9a-f]{64}", value)
    for name, declared in ARANGO.content["secrets"].items():
        file = containers.folder / declared["file"]
        assert file == containers.folder / "secrets" / f"{name}.txt"
        # The image's user is nobody here: a mounted file keeps its mode, the folder
        # keeps others out.
        assert stat.S_IMODE(file.stat().st_mode) == 0o644
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    containers.make("arango-up")
    assert secrets == {name: containers.secret(name) for name in ARANGO.content["secrets"]}
    called = (containers.folder / "docker.log").read_text(encoding="utf-8").splitlines()
    up = ["up", "--build", "--detach", "--wait", "nodius"]
    assert called == [str([*ARANGO.call, *up])] * 2


@pytest.mark.parametrize("stack", STACKS, ids=lambda stack: stack.file)
def test_each_service_finds_the_secrets_and_the_other_services_that_it_names(stack: Stack) -> None:
    services = stack.services
    secrets = stack.content["secrets"]
    database = stack.server.partition(":")[0]
    for name, service in services.items():
        text = json.dumps(service)
        assert set(re.findall(r"/run/secrets/(\w+)", text)) == set(service.get("secrets", [])), name
        assert set(service.get("secrets", [])) <= set(secrets)
        assert set(service.get("depends_on", {})) <= set(services)
        volumes = {volume.partition(":")[0] for volume in service.get("volumes", [])}
        assert {volume for volume in volumes if "/" not in volume} <= set(stack.content["volumes"])
        if name == "proxy":
            assert service["command"][-1] == f"nodius:{instructions('EXPOSE')[0][0]}"
            continue
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), name
        if name != database:
            assert stack.server in text
    assert image_environment()["NODIUS_HOST"] == "0.0.0.0"
    assert services["nodius"]["image"] == services["init"]["image"]
    for image in {service["image"] for service in services.values()} - {"nodius-graphrag"}:
        assert re.fullmatch(r"[\w./-]+:\d+\.\d+\.\d+[\w.-]*", image), "not a fixed version"


@pytest.mark.skipif(NODE is None, reason="no Node.js: the user script runs in it")
@pytest.mark.slow
def test_the_user_script_gives_the_least_rights_and_may_run_again(containers: Containers) -> None:
    script = containers.call(
        ["nodius", "db", "init", "--print-user-script"],
        containers.environment("init", NODIUS_DB=_address()),
    )
    (containers.folder / "nodius-user.js").write_text(script, encoding="utf-8")
    containers.program("arangosh", str(NODE), str(STAND_IN))
    users = users_file(containers)
    for _ in range(2):
        containers.run("grant", FAKE_USERS=str(users))
        found = json.loads(users.read_text(encoding="utf-8"))
        assert found["signedIn"][1:] == ["root", containers.secret("arango_root")]
        assert found["users"]["nodius"] == {
            "password": containers.secret("arango_nodius"),
            "active": True,
            "databases": {"_system": "none", "nodius": "ro"},
            "collections": {"nodius": {"*": "none", **dict.fromkeys(ALL_COLLECTIONS, "rw")}},
        }


def _address() -> str:
    return "arango+http://root@arangodb:8529/nodius"


@pytest.mark.slow
def test_an_empty_machine_comes_to_the_page_on_arangodb(
    containers: Containers, server: ArangoServer
) -> None:
    here = at(containers, server)
    said = list[str]()
    said.append(here.run("init"))
    assert "made the collection nodius_nodes" in said[0]
    assert 'const user = "nodius";' in (here.folder / "nodius-user.js").read_text(encoding="utf-8")
    said.append(here.run("init"))
    assert "nothing to do" in said[1]
    server.forget_counts()
    with serving(here, said) as client:
        said.append(here.call(["nodius", "demo", "--no-serve"], here.environment("nodius")))
        _use(client, here.make("arango-token").splitlines()[0])
    said.append(here.call(["nodius", "db", "check"], here.environment("nodius")))
    assert {request for request in server.count() if not ALLOWED.fullmatch(request)} == set()
    for name in ARANGO.content["secrets"]:
        assert here.secret(name) not in "".join(said)


@pytest.mark.slow
def test_an_empty_machine_comes_to_the_page_and_to_backups_on_postgresql(
    on_postgres: tuple[Containers, PostgresServer],
) -> None:
    here, server = on_postgres
    said = [here.run("init"), here.run("init")]
    assert "created the schema nodius" in said[0]
    assert "nothing to do" in said[1]
    for _ in range(2):
        said.append(here.run("grant"))
    with serving(here, said) as client:
        said.append(here.call(["nodius", "demo", "--no-serve"], here.environment("nodius")))
        _use(client, here.make("postgres-token").splitlines()[0])
        dump = _first_backup(here)
    checked = here.call(["nodius", "db", "check"], here.environment("nodius"))
    assert "row-level security holds for the role 'nodius'" in checked
    assert dump.stat().st_mode & 0o077 == 0
    server.execute("CREATE DATABASE second")
    second = here.here("postgres://postgres@postgres:5432/second")
    restore = ["pg_restore", f"--dbname={second}", "--exit-on-error", str(dump)]
    here.call(restore, here.environment(None, PGPASSWORD=here.secret("postgres_admin")))
    assert server.execute("SELECT count(*) FROM nodius.graphs", database="second") == [(4,)]
    for name in POSTGRES.content["secrets"]:
        assert here.secret(name) not in "".join(said) + server.log()


def _first_backup(here: Containers) -> Path:
    """Run the job of backups until it made one."""
    environment = here.environment("backup")
    with subprocess.Popen(
        here.command("backup"), cwd=here.folder, env=environment, start_new_session=True
    ) as process:
        try:
            asyncio.run(until(lambda: list(here.folder.glob("nodius-*.dump"))))
        finally:
            os.killpg(process.pid, signal.SIGTERM)
    [dump] = here.folder.glob("nodius-*.dump")
    return dump


def _use(client: httpx2.Client, token: str) -> None:
    """Read, import, ask, have a change proposed, and approve it, as the page does."""
    assert client.get("readyz").json() == {"status": "ok"}
    assert client.get("/").headers["content-type"].startswith("text/html")
    assert client.get("api/graphs").status_code == 401
    client.headers["Authorization"] = f"Bearer {token}"
    assert {graph["graphKey"] for graph in client.get("api/graphs").json()["graphs"]} >= {
        "testgraph001"
    }
    flow = (ROOT / "mock_data/workflows/order_refund.json").read_bytes()
    made = client.post("api/graphs/import", content=flow, params={"graphKey": "second"}).json()
    assert made["action"] == "created"
    asked = {"graphKey": "testgraph001", "message": 'rename error-handler to "Report error"'}
    assert client.post("api/ai/chat", json=asked).json()["type"] == "interrupt"
    (pending,) = (
        each["id"]
        for each in client.get("api/approvals").json()["approvals"]
        if each["status"] == "pending"
    )
    decided = client.post(f"api/approvals/{pending}/decision", json={"verdict": "approve"}).json()
    assert decided["status"] == "applied"
    nodes = client.get("api/graphs/testgraph001/nodes").json()["nodes"]
    assert "Report error" in json.dumps(nodes)
    assert client.get("api/audit/verify").json()["sound"]


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_image_has_what_each_stack_needs_to_reach_its_database() -> None:
    extra = "optional-dependencies"
    schemes = {
        stack.services["nodius"]["environment"]["NODIUS_DB"].split(":")[0] for stack in STACKS
    }
    assert schemes == {"arango+http", "postgres"}
    assert f"project['{extra}']['postgres']" in DOCKERFILE
    assert PROJECT["project"][extra]["postgres"]


def test_every_room_and_file_of_the_wheel_is_copied_into_the_image() -> None:
    copied = {
        word for words in instructions("COPY") for word in words[:-1] if not word.startswith("--")
    }
    rooms = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    files = [PROJECT["project"]["readme"], *PROJECT["project"]["license-files"], "constraints.txt"]
    assert {*rooms, *files, "pyproject.toml"} <= copied
    ignored = (ROOT / "packaging/Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    assert ignored[0] == "*"
    assert {word[1:] for word in ignored if word.startswith("!")} == copied - {"/opt/nodius"}


def test_the_image_runs_the_service_as_a_user_of_its_own_in_a_folder_of_theirs() -> None:
    (user,), (folder,) = instructions("USER"), instructions("WORKDIR")[-1:]
    made = next(words for words in instructions("RUN") if words[0] == "useradd")
    assert (
        made[made.index("--uid") + 1] == user[0]
    )  # a number: orchestrators see that it is not root
    assert made[made.index("--home-dir") + 1] == folder[0]
    assert instructions("ENTRYPOINT") == [['["nodius"]']]

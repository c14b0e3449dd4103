"""The address of a PostgreSQL database."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from datasources.errors import InvalidDatabaseUrl
from datasources.postgres import is_postgres, parse_address


def for_libpq(url: str) -> dict[str, str]:
    """Returns what libpq reads in the address that it is given."""
    return {
        name: str(value) for name, value in conninfo_to_dict(parse_address(url).conninfo).items()
    }


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_an_address_says_where_and_who(scheme: str) -> None:
    url = f"{scheme}://ann:p%40ss%2F@db.example:5433/graphs"
    address = parse_address(url)
    assert is_postgres(url)
    assert (address.database, address.user) == ("graphs", "ann")
    assert address.hosts == (("db.example", 5433),)
    assert (address.timeout_s, address.pool) == (30.0, 10)
    assert address.shown == "postgres://ann@db.example:5433/graphs"
    assert "p@ss" not in repr(address)
    assert "p%40ss" not in repr(address)
    assert for_libpq(url) == {
        "user": "ann",
        "password": "p@ss/",
        "host": "db.example",
        "port": "5433",
        "dbname": "graphs",
        "target_session_attrs": "read-write",
        "connect_timeout": "5",
        "application_name": "nodius",
        "keepalives_idle": "10",
        "keepalives_interval": "5",
        "keepalives_count": "4",
        "tcp_user_timeout": "30000",
    }


@pytest.mark.parametrize("url", ["sqlite:a.db", "memory:", "arango+http://h/db", "postgres", ""])
def test_other_addresses_are_not_of_this_kind(url: str) -> None:
    assert is_postgres(url) == url.startswith("postgres")


def test_several_hosts_are_one_deployment() -> None:
    url = "postgres://nodius@a:1,b,[::1]:3/graphs?timeout=2.5&pool=3"
    address = parse_address(url)
    assert address.hosts == (("a", 1), ("b", 5432), ("::1", 3))
    assert address.shown == "postgres://nodius@a:1,b:5432,[::1]:3/graphs"
    assert (address.timeout_s, address.pool) == (2.5, 3)
    read = for_libpq(url)
    assert (read["host"], read["port"]) == ("a,b,::1", "1,5432,3")
    assert "password" not in read


def test_a_unix_socket_is_a_folder() -> None:
    for url in (
        "postgres://ann@/graphs?host=/run/postgresql&port=5433",
        "postgresql://ann@/graphs?host=%2Frun%2Fpostgresql&port=5433",
    ):
        address = parse_address(url)
        assert address.hosts == (("/run/postgresql", 5433),)
        assert address.shown == "postgres://ann@/graphs?host=/run/postgresql&port=5433"
        read = for_libpq(url)
        assert (read["host"], read["port"]) == ("/run/postgresql", "5433")
        assert parse_address(address.shown) == address


def test_two_sockets_may_share_a_port() -> None:
    url = "postgres:///graphs?host=/run/a,/run/b"
    assert parse_address(url).hosts == (("/run/a", 5432), ("/run/b", 5432))
    assert parse_address(url).user == ""
    assert for_libpq(url)["port"] == "5432,5432"


def test_options_of_libpq_reach_it_as_they_are_written(tmp_path: Path) -> None:
    file = tmp_path / "a+b c.pem"
    file.touch()
    encoded = str(file).replace(" ", "%20")
    read = for_libpq(
        f"postgres://ann@h/db?sslmode=verify-full&sslrootcert={encoded}&passfile={encoded}"
        "&target_session_attrs=any&connect_timeout=2&application_name=a%26b+c&options=-c%20x%3D1"
    )
    assert read["sslmode"] == "verify-full"
    assert read["sslrootcert"] == read["passfile"] == str(file)
    assert read["target_session_attrs"] == "any"
    assert read["connect_timeout"] == "2"
    assert read["application_name"] == "a&b+c"
    assert read["options"] == "-c x=1"
    assert for_libpq("postgres://ann@h/db?sslrootcert=system")["sslrootcert"] == "system"


def test_a_password_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "me@here"
    file.write_text("p%40 ss'\\&é\n", encoding="utf-8")
    url = f"postgres://ann:other@h/db?password_file={file}"
    assert for_libpq(url)["password"] == "p%40 ss'\\&é"
    assert "p%40 ss" not in repr(parse_address(url))


def test_names_may_contain_any_character() -> None:
    url = "postgres://a%20b%2Fc:x@h/my%20db%3F"
    address = parse_address(url)
    assert (address.user, address.database) == ("a b/c", "my db?")
    read = for_libpq(url)
    assert (read["user"], read["dbname"]) == ("a b/c", "my db?")
    assert parse_address(address.shown).database == "my db?"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgres+tls://u:hidden@h/db", "unknown scheme"),
        ("postgres:u:hidden@h/db", "must read"),
        ("postgres://u:hidden@h", "must read"),
        ("postgres://u:hidden@h/", "must read"),
        ("postgres://u:hidden@h/db/more", "must read"),
        ("postgres://u:hidden@[::1/db", "must read"),
        ("postgres://u:hid/den@h/db", "%2F"),
        ("postgres://u:hid?den@h/db", "%2F"),
        ("postgres://u:hid#den@h/db", "%2F"),
        ("postgres:///db", r"a host is missing.*\?host=/run/postgresql"),
        ("postgres://u:hidden@/db", "a host is missing"),
        ("postgres://u:hidden@a,,b/db", "a host is missing"),
        ("postgres://u:hidden@/db?host=/a,", "a host is missing"),
        ("postgres://u:hidden@h/db?host=/a", "two hosts"),
        ("postgres://u:hidden@h/db?port=1", "two hosts"),
        ("postgres://u:hidden@h:port/db", "[Pp]ort"),
        ("postgres://u:hidden@h:65536/db", "[Pp]ort"),
        ("postgres://u:hidden@/db?host=/a&port=x", "port 'x'"),
        ("postgres://u:hidden@/db?host=/a,/b&port=1,2,3", "2 hosts but 3 ports"),
        ("postgres://:hidden@h/db", "without a user"),
        ("postgres://u:hid%00den@h/db", "%00"),
        ("postgres://u@h/db?password=hidden", "unknown option 'password'"),
        ("postgres://u@h/db?sslpassword=hidden&x=1", "unknown option 'sslpassword'"),
        ("postgres://u:hidden@h/db?tls=no", "unknown option 'tls'"),
        ("postgres://u:hidden@h/db?sslmode=on", "sslmode must be one of disable, allow"),
        ("postgres://u:hidden@h/db?target_session_attrs=rw", "must be one of any, read-write"),
        ("postgres://u:hidden@h/db?connect_timeout=soon", "connect_timeout must be a whole"),
        ("postgres://u:hidden@h/db?sslrootcert=/no/such", "no file '/no/such'"),
        ("postgres://u:hidden@h/db?timeout=soon", "timeout"),
        ("postgres://u:hidden@h/db?timeout=0", "timeout"),
        ("postgres://u:hidden@h/db?timeout=nan", "timeout"),
        ("postgres://u:hidden@h/db?pool=0", "pool must be"),
        ("postgres://u:hidden@h/db?pool=many", "pool must be"),
        ("postgres://u@h/db?password_file=/no/such/file", "cannot be read"),
    ],
)
def test_a_wrong_address_says_what_to_write_and_no_password(url: str, reason: str) -> None:
    with pytest.raises(InvalidDatabaseUrl, match=reason) as refused:
        parse_address(url)
    assert "hid" not in str(refused.value)
    assert "den" not in str(refused.value)
    assert "postgres://USER:PASSWORD@HOST/DB" in str(refused.value)

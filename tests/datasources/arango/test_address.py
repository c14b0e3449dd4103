"""Addresses of ArangoDB databases: what they say, and that no password is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from datasources.arango import parse_address
from datasources.errors import InvalidDatabaseUrl
from tests.support.each_row import each_row


def test_an_address_says_where_and_who() -> None:
    address = parse_address("arango+http://ann:p%40ss%2F@db.example:8530/graphs")
    assert address.hosts == ("http://db.example:8530",)
    assert (address.database, address.user, address.password) == ("graphs", "ann", "p@ss/")
    assert (address.verify, address.timeout_s) == (True, 30.0)
    assert address.shown == "arango+http://ann@db.example:8530/graphs"
    assert "p@ss" not in repr(address)


def test_several_hosts_are_one_deployment() -> None:
    address = parse_address("arango+http://a:1,b,[::1]:3/graphs?timeout=2.5&verify=no")
    assert (address.user, address.password) == ("root", "")
    assert address.hosts == ("http://a:1", "http://b:8529", "http://[::1]:3")
    assert address.shown == "arango+http://root@a:1,b:8529,[::1]:3/graphs"
    assert (address.timeout_s, address.verify) == (2.5, False)


def test_a_password_may_stand_in_a_file(tmp_path: Path) -> None:
    file, authority = tmp_path / "secret", tmp_path / "ca.pem"
    authority.touch()
    file.write_text("p%40 ss\n")
    address = parse_address(f"arango+http://u@h/db?password_file={file}&verify={authority}")
    assert (address.password, address.verify) == ("p%40 ss", str(authority))


@each_row(
    "url, reason",
    ("arango://u:hidden@h/db", "unknown scheme"),
    ("arango+http://u:hidden@h", "must read"),
    ("arango+http://u:hidden@h/", "must read"),
    ("arango+http:///db", "must read"),
    ("arango+http://u:hidden@h/db/more", "must read"),
    ("arango+http://u:hidden@h:port/db", "port"),
    ("arango+http://u:hidden@a,,b/db", "host"),
    ("arango+http://u:hidden@h/db?tls=no", "unknown option 'tls'"),
    ("arango+http://u:hidden@h/db?timeout=soon", "timeout"),
    ("arango+http://u:hidden@h/db?timeout=0", "timeout"),
    ("arango+http://u:hidden@h/db?timeout=nan", "timeout"),
    ("arango+http://u:hidden@h/db?password_file=/no/such/file", "cannot be read"),
)
def test_a_wrong_address_says_what_is_wrong_and_no_password(url: str, reason: str) -> None:
    with pytest.raises(InvalidDatabaseUrl, match=reason) as refused:
        parse_address(url)
    assert "hidden" not in str(refused.value)
    assert "arango+http://USER:PASSWORD@HOST:8529/DATABASE" in str(refused.value)

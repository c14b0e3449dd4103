"""Copies a whole database to another store: all workspaces with node types, graphs and records.

Decision: the copy uses only what every store has (`datasources.base`), so it works between any two.
It is no snapshot: no store can read all workspaces at one moment through it. So the servers of both
databases are stopped meanwhile, and at the end the original is counted again.

The target gets a mark when the copy begins. An interrupted copy is continued by the same call:
equal graphs and records are passed by, an unfinished graph is replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datasources.base import Database, Record, RecordStore, RecordWrite
from datasources.errors import RecordConflict, SourceUnavailable
from datasources.types import ROOT_WORKSPACE
from graphrag.app.database_inventory import (
    KINDS,
    LEFT_OUT,
    Inventory,
    differences,
    take_inventory,
    workspaces_of,
)
from graphrag.app.databases import database_file, open_database
from graphrag.app.graph_transfer import transfer_graph
from graphrag.app.paged_reads import read_records
from graphrag.approvals.audit import HEAD, Audit
from graphrag.approvals.audit import KIND as AUDIT
from graphrag.leases import KIND as LEASE
from graphrag.leases import is_free, new_owner, now_ms
from graphrag.stored_records import change_record

MARK, KEY = "database_copy", "copy"

Progress = Callable[[int, int], None]
"""Receives the numbers of copied nodes, edges and records, and of all of them."""


class CopyRefused(Exception):
    """Raised before anything is copied. The text says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """The result of a copy. `differences` has a line for each number that is not equal.

    `left_out` describes what was not copied; `notes` what was found besides.
    """

    inventory: Inventory
    left_out: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def to_document(self) -> dict[str, Any]:
        return {
            "workspaces": {
                name: {**held.counts(), "recordKinds": held.records}
                for name, held in self.inventory.items()
            },
            "leftOut": self.left_out,
            "differences": self.differences,
            "notes": self.notes,
        }


async def transfer_database(original: str, copy: str, report: Progress) -> Transfer:
    """Copies the database of one address to that of another, and compares both.

    Raises: InvalidDatabaseUrl, CopyRefused, SourceError.
    """
    from_file, to_file = _file(original), _file(copy)
    if from_file is not None and not await asyncio.to_thread(from_file.exists):
        raise SourceUnavailable(source=original, reason="there is no such file")
    _refuse_same(from_file, to_file)
    async with open_database(original, ROOT_WORKSPACE) as source:
        await _refuse_used(source)
        inventory = await take_inventory(source)
        async with open_database(copy, ROOT_WORKSPACE) as target:
            name = source.url if from_file is None else f"sqlite:{from_file}"
            _refuse_same(name, target.url)
            await _refuse_used(target)
            return await _Transfer(source, target, inventory, report).run(name)


def _file(url: str) -> Path | None:
    """Returns the file of an address, None for a server.

    Raises: InvalidDatabaseUrl, CopyRefused.
    """
    file = database_file(url)
    if url.startswith("memory:"):
        raise CopyRefused("memory: ends with this command, and holds nothing to copy")
    return None if file is None else file.resolve()


def _refuse_same(original: object, copy: object) -> None:
    if original is not None and original == copy:
        raise CopyRefused("FROM and TO are the same database")


async def _refuse_used(database: Database) -> None:
    """Raises CopyRefused if a server holds a lease in a database."""
    mine = new_owner()
    for workspace in await database.workspaces(LEASE):
        async with aclosing(read_records(database.records(workspace), LEASE)) as pages:
            async for page in pages:
                for lease in page:
                    if not is_free(lease.data, mine, now_ms()):
                        raise CopyRefused(
                            f"a server uses {database.url} (it holds the lease {lease.key} of "
                            f"workspace {workspace}): stop it first"
                        )


@dataclass(slots=True)
class _Transfer:
    """One copy in progress. `inventory` is that of the source when the copy began."""

    source: Database
    target: Database
    inventory: Inventory
    report: Progress
    done: int = field(default=0, init=False)

    async def run(self, name: str) -> Transfer:
        if await self._begin(name):
            # Types first: the words of a node contain those of its type.
            for workspace in self.inventory:
                await self._copy_types(workspace)
            for workspace in self.inventory:
                await self._copy_graphs(workspace)
                for kind in KINDS:
                    await self._copy_records(workspace, kind)
        result = await self._compare()
        if not result.differences:
            await self._mark({"from": name, "endedTime": now_ms()})
        return result

    async def _begin(self, name: str) -> bool:
        """Returns whether there is something to copy, and not only to compare.

        Raises: CopyRefused.
        """
        mark = await self.target.records(ROOT_WORKSPACE).get(MARK, KEY)
        if mark is None:
            if await _is_used(self.target):
                raise CopyRefused(f"{self.target.url} holds other data: give an empty database")
            await self._mark({"from": name, "startedTime": now_ms()})
        elif mark.data.get("from") != name:
            other = mark.data.get("from")
            raise CopyRefused(f"{self.target.url} holds a copy of {other}: give an empty database")
        return mark is None or "endedTime" not in mark.data

    async def _mark(self, data: Mapping[str, Any]) -> None:
        records = self.target.records(ROOT_WORKSPACE)
        await change_record(records, MARK, KEY, lambda old: {**(old.data if old else {}), **data})

    def _count(self, documents: int) -> None:
        self.done += documents
        total = sum(held.documents for held in self.inventory.values())
        self.report(min(self.done, total), total)

    async def _copy_types(self, workspace: str) -> None:
        target = self.target.source(workspace)
        stored = {config.key: config for config in await target.get_own_configs()}
        for config in await self.source.source(workspace).get_own_configs():
            if stored.get(config.key) != config:
                await target.put_node_config(config)

    async def _copy_graphs(self, workspace: str) -> None:
        source = self.source.source(workspace)
        target = self.target.source(workspace)
        for graph in await source.list_graphs():
            await transfer_graph(source, target, graph, self._count)

    async def _copy_records(self, workspace: str, kind: str) -> None:
        target = self.target.records(workspace)
        async with aclosing(read_records(self.source.records(workspace), kind)) as pages:
            async for page in pages:
                writes = [
                    RecordWrite(kind=kind, key=record.key, data=record.data, expected_version=None)
                    for record in page
                ]
                try:
                    await target.write(writes)
                except RecordConflict:  # some were copied before
                    await _put_one_by_one(target, page)
                self._count(len(page))

    async def _compare(self) -> Transfer:
        """Counts the target and, again, the source, and verifies the audit logs."""
        copied = await take_inventory(self.target)
        lines = differences(self.inventory, copied)
        now = await take_inventory(self.source)
        changed = [
            f"{self.source.url} was changed meanwhile: {line}"
            for line in differences(self.inventory, now)
        ]
        notes = list[str]()
        for workspace, held in self.inventory.items():
            if held.records.get(AUDIT):
                await self._verify_audit(workspace, lines, notes)
        left_out = await self._left_out()
        return Transfer(
            inventory=copied,
            left_out=tuple(left_out),
            differences=(*lines, *changed),
            notes=tuple(notes),
        )

    async def _verify_audit(self, workspace: str, lines: list[str], notes: list[str]) -> None:
        """Verifies a chain of the target, whose end must be the end of that of the source."""
        head = await self.source.records(workspace).get(AUDIT, HEAD)
        noted = str(head.data.get("lastHash")) if head else None
        verdict = await Audit(self.target.records(workspace), now_ms).verify(noted=noted)
        if verdict.is_sound:
            return
        before = await Audit(self.source.records(workspace), now_ms).verify(noted=noted)
        if before.faults == verdict.faults:
            notes.append(
                f"workspace {workspace}: the audit log of {self.source.url} is not intact, and was "
                f"copied as it is: {verdict.faults[0]}"
            )
        else:
            lines += [f"workspace {workspace}, audit log: {fault}" for fault in verdict.faults[:3]]

    async def _left_out(self) -> list[str]:
        left_out = [words for kind, words in LEFT_OUT.items() if await self.source.workspaces(kind)]
        for workspace in self.inventory:
            foreign = self.source.source(workspace).abilities.foreign_vectors
            counts = await foreign.count_unmarked_vectors() if foreign else {}
            if counts:
                left_out.append(
                    f"{sum(counts.values()):,} vectors of workspace {workspace} that name no model"
                )
        return left_out


async def _is_used(database: Database) -> bool:
    """Returns whether a database holds graphs, node types or records that would be copied."""
    root = database.source(ROOT_WORKSPACE)
    return await workspaces_of(database) != [ROOT_WORKSPACE] or bool(
        await root.list_graphs()
        or await root.get_own_configs()
        or [kind for kind in KINDS if await database.workspaces(kind)]
    )


async def _put_one_by_one(records: RecordStore, page: list[Record]) -> None:
    for record in page:
        data = record.data
        await change_record(
            records,
            record.kind,
            record.key,
            lambda old, data=data: None if old is not None and old.data == data else data,
        )

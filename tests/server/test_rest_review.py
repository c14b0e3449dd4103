"""Graphs, review, undo, audit and usage over REST."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from graphrag.app.usage_report import UsageAnswer
from graphrag.llm.base import UsageReport
from server import approval_documents
from server.rest_graphs import GraphDetail
from server.rest_review import ApprovalDocument, AuditVerdict
from tests.support.chosen_database import address_in
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import CHANGE, GRAPH, answered, error_of, service


def proposing(*others: dict[str, Any]) -> ScriptedProvider:
    return ScriptedProvider(
        *(Says(calls=[call("propose_update_node", args)]) for args in (CHANGE, *others))
    )


async def proposed(client: httpx2.AsyncClient) -> str:
    answer = await client.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "warn"})
    return answer.json()["approvals"][0]["id"]


async def test_a_graph_is_listed_looked_at_and_read_in_pages() -> None:
    async with service() as running, running.as_("vi", "viewer") as vi:
        [graph] = (await vi.get("/api/graphs")).json()["graphs"]
        assert (graph["graphKey"], graph["nodes"], graph["edges"]) == (GRAPH, 9, 6)
        detail = GraphDetail.model_validate((await vi.get(f"/api/graphs/{GRAPH}")).json())
        assert sum(detail.types.values()) == 9
        assert detail.configs
        keys: list[str] = []
        query: dict[str, Any] = {"limit": 4}
        while True:
            page = (await vi.get(f"/api/graphs/{GRAPH}/nodes", params=query)).json()
            keys += [node["_key"] for node in page["nodes"]]
            if "next" not in page:
                break
            query["after"] = page["next"]
        assert len(keys) == len(set(keys)) == 9
        edges = (await vi.get(f"/api/graphs/{GRAPH}/edges")).json()["edges"]
        assert {edge["source"] for edge in edges} <= set(keys)


async def test_an_export_can_be_imported_by_editors_into_another_workspace() -> None:
    async with (
        service() as running,
        running.as_() as ed,
        running.as_("al", "editor", "other") as al,
    ):
        exported = await ed.get(f"/api/graphs/{GRAPH}/export")
        assert exported.headers["Content-Disposition"].endswith("testgraph001.json")
        put = {"content": exported.content, "params": {"graphKey": "copy"}}
        made = (await al.post("/api/graphs/import", **put)).json()
        assert made["action"] == "created"
        assert made["graphKey"].startswith("copy-")
        assert (await al.post("/api/graphs/import", **put)).json()["action"] == "unchanged"
        assert (await al.get(f"/api/graphs/{made['graphKey']}")).json()["nodes"] == 9
        assert (await ed.get(f"/api/graphs/{made['graphKey']}")).status_code == 404
        async with running.as_("vi", "viewer", "other") as vi:
            assert error_of(await vi.post("/api/graphs/import", **put))["code"] == "forbidden"
        async with running.as_("al", "editor", "other", "third") as both:
            assert (
                error_of(await both.post("/api/graphs/import", **put))["code"] == "invalid_message"
            )
            named = {**put, "params": {"graphKey": "copy", "workspace": "other"}}
            assert (await both.post("/api/graphs/import", **named)).json()["action"] == "unchanged"
        bad = await ed.post("/api/graphs/import", content=b"{")
        assert (bad.status_code, error_of(bad)["code"]) == (422, "unreadable")


async def test_an_import_may_be_larger_than_other_requests_and_no_larger_than_that() -> None:
    async with service(max_body_bytes=1024) as running, running.as_() as ed:
        large = json.dumps({"graphKey": GRAPH, "message": "x" * 1024}).encode()
        assert (await ed.post("/api/ai/chat", content=large)).status_code == 413
        assert error_of(await ed.post("/api/ai/chat", content=pieces(large)))["code"] == "too_large"
        assert (await ed.post("/api/graphs/import", content=large)).status_code == 422
        assert (await ed.post("/api/graphs/import", content=large * 20)).status_code == 413


async def pieces(body: bytes) -> Any:
    for start in range(0, len(body), 100):
        yield body[start : start + 100]


async def test_a_reviewer_finds_what_waits_and_decides_it_once() -> None:
    with proposing() as provider:
        async with (
            service(provider) as running,
            running.as_() as ed,
            running.as_("rev", "reviewer") as rev,
        ):
            approval = await proposed(ed)
            listed = (await rev.get("/api/approvals", params={"status": "pending"})).json()[
                "approvals"
            ]
            assert [a["id"] for a in listed] == [approval]
            assert (await rev.get("/api/approvals", params={"asker": "rev"})).json()[
                "approvals"
            ] == []
            seen = ApprovalDocument.model_validate(
                (await rev.get(f"/api/approvals/{approval}")).json()
            )
            assert seen.preview["nodesChanged"][0]["key"] == "error-handler"
            decision = f"/api/approvals/{approval}/decision"
            done = (await rev.post(decision, json={"verdict": "approve"})).json()
            assert (done["status"], done["decision"]["by"]) == ("applied", "rev")
            assert "inverse" not in done["result"]
            again = await rev.post(decision, json={"verdict": "approve"})
            assert (again.status_code, error_of(again)["code"]) == (409, "conflict")


@pytest.mark.parametrize("is_resumed", [False, True])
async def test_feedback_on_an_approval_is_kept_and_the_model_reads_it(is_resumed: bool) -> None:
    with proposing() as provider:
        provider.play("Done.")
        async with (
            service(provider) as running,
            running.as_() as ed,
            running.as_("rev", "reviewer") as rev,
        ):
            approval = await proposed(ed)
            path = f"/api/approvals/{approval}"
            thread = (await ed.get(path)).json()["threadId"]
            on = {"threadId": thread, "approved": True, "approvalId": approval}
            said = {"feedback": "well seen"}
            if not is_resumed:
                decided = await rev.post(f"{path}/decision", json={"verdict": "approve", **said})
                assert "well seen" in decided.json()["outcome"]
            resumed = await ed.post("/api/ai/resume", json=on | (said if is_resumed else {}))
            assert resumed.json()["message"] == "Done."
            stored = (await ed.get(path)).json()
            assert (stored["status"], stored["decision"]["feedback"]) == ("applied", "well seen")
            [entry] = (await rev.get("/api/audit")).json()["entries"]
            assert entry["feedback"] == "well seen"
        assert "well seen" in str(provider.requests[-1].messages)


async def test_who_may_not_decide_is_refused_and_nothing_is_decided() -> None:
    async with proposing() as provider, service(provider) as running, running.as_() as ed:
        approval = await proposed(ed)
        for user, role in (("vi", "viewer"), ("other", "editor")):
            async with running.as_(user, role) as one:
                no = await one.post(
                    f"/api/approvals/{approval}/decision", json={"verdict": "approve"}
                )
                assert (no.status_code, error_of(no)["code"]) == (403, "forbidden")
        assert (await ed.get(f"/api/approvals/{approval}")).json()["status"] == "pending"


async def test_an_edit_that_does_not_work_names_its_problems() -> None:
    async with proposing() as provider, service(provider) as running, running.as_() as ed:
        approval = await proposed(ed)
        decision = f"/api/approvals/{approval}/decision"
        missing = {
            "type": "update_node",
            "payload": {"nodeKey": "nobody", "changes": {"data.level": 1}},
        }
        refused = await ed.post(decision, json={"verdict": "approve", "editedAction": missing})
        assert refused.status_code == 422
        assert "nobody" in str(error_of(refused)["details"])
        malformed = await ed.post(
            decision, json={"verdict": "approve", "editedAction": {"type": "x"}}
        )
        assert malformed.status_code == 422
        french = await ed.post(
            decision,
            json={"verdict": "approve", "editedAction": {"type": "x"}},
            headers={"Accept-Language": "fr-FR"},
        )
        assert error_of(french)["message"].startswith("Non valide")


def nested(depth: int) -> dict[str, Any]:
    action: dict[str, Any] = {"type": "delete_node", "payload": {"nodeKey": "root"}}
    for _ in range(depth):
        action = {"type": "batch", "payload": {"actions": [action]}}
    return action


async def test_what_is_nested_too_deep_is_refused_by_name_on_every_channel() -> None:
    async with proposing() as provider, service(provider) as running, running.as_() as ed:
        approval = await proposed(ed)
        thread = (await ed.get(f"/api/approvals/{approval}")).json()["threadId"]
        value: Any = "deep"
        for _ in range(400):
            value = {"inner": value}
        update = {
            "type": "update_node",
            "payload": {"nodeKey": "root", "changes": {"data.x": value}},
        }
        decision = f"/api/approvals/{approval}/decision"
        for action in (nested(160), nested(40), update):
            asked = {"verdict": "approve", "editedAction": action}
            refused = await ed.post(decision, json=asked)
            assert refused.status_code == 422
            assert "nested" in error_of(refused)["message"] + str(error_of(refused)["details"])
            resumed = {"threadId": thread, "approved": True, "editedAction": action}
            assert (await ed.post("/api/ai/resume", json=resumed)).status_code == 422
        assert (await ed.get(f"/api/approvals/{approval}")).json()["status"] == "pending"


@pytest.mark.parametrize("depth", [1_500, pytest.param(100_000, marks=pytest.mark.slow)])
async def test_no_depth_of_a_body_is_a_fault_of_the_service(depth: int) -> None:
    async with service() as running, running.as_("ada", "admin") as ada:
        for path in (
            "/api/ai/chat",
            "/api/ai/resume",
            f"/api/graphs/{GRAPH}/undo",
            "/api/graphs/import",
        ):
            for body in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
                answer = await ada.post(
                    path, content=body, headers={"Content-Type": "application/json"}
                )
                assert answer.status_code in (400, 413, 422), (path, answer.text[:200])


async def test_several_are_decided_at_once_and_conflicts_are_listed() -> None:
    """Two change one field, a third another node: all are approved at once, and one of the pair is
    out of date then. Who may not decide sees that with each, and decides none.
    """
    other = {**CHANGE, "changes": {"data.level": "notice"}}
    rename = {"nodeKey": "root", "changes": {"data.name": "R"}, "reason": "x"}
    with proposing(other, rename) as provider:
        async with (
            service(provider) as running,
            running.as_() as ed,
            running.as_("rev", "reviewer") as rev,
        ):
            ids = [await proposed(ed) for _ in range(3)]
            listed = (await rev.get("/api/approvals")).json()
            [conflict] = listed["conflicts"]
            assert sorted(conflict["ids"]) == sorted(ids[:2])
            assert (conflict["key"], conflict["field"]) == ("error-handler", "data.level")
            assert not any("objection" in one for one in listed["approvals"])
            body = {"approvalIds": ids, "verdict": "approve"}
            async with running.as_("al") as al:
                [said, *_] = (await al.get("/api/approvals")).json()["approvals"]
                assert "only a reviewer" in said["objection"]
                refused = await al.post("/api/approvals/decisions", json=body)
                assert (refused.status_code, error_of(refused)["code"]) == (403, "forbidden")
            done = (await rev.post("/api/approvals/decisions", json=body)).json()
            assert sorted(one["status"] for one in done["approvals"]) == [
                "applied",
                "applied",
                "stale",
            ]
            assert done["refused"] == []
            again = (await rev.post("/api/approvals/decisions", json=body)).json()
            assert {one["code"] for one in again["refused"]} == {"conflict"}
            assert (await rev.get("/api/approvals")).json()["conflicts"] == []


@pytest.mark.slow
async def test_a_comment_and_a_decision_of_the_same_moment_are_both_kept() -> None:
    with proposing() as provider:
        async with (
            service(provider) as running,
            running.as_() as ed,
            running.as_("rev", "reviewer") as rev,
        ):
            path = f"/api/approvals/{await proposed(ed)}"
            said = [rev.post(f"{path}/comments", json={"text": f"<b>{n}</b>"}) for n in range(4)]
            decided = rev.post(f"{path}/decision", json={"verdict": "reject", "feedback": "no"})
            answers = await asyncio.gather(*said[:2], decided, *said[2:])
            assert {answer.status_code for answer in answers} == {200}
            found = (await ed.post(f"{path}/comments", json={"text": "Why?"})).json()
            assert found["status"] == "rejected"
            assert sorted(one["text"] for one in found["comments"])[:4] == [
                f"<b>{n}</b>" for n in range(4)
            ]
            async with (
                running.as_("vi", "viewer") as vi,
                running.as_("ex", "admin", "other") as stranger,
            ):
                for client, status in ((vi, 403), (stranger, 404)):
                    assert (
                        await client.post(f"{path}/comments", json={"text": "x"})
                    ).status_code == status
            for bad in ("", "  ", "x" * 2_001):
                assert (await ed.post(f"{path}/comments", json={"text": bad})).status_code == 422
            rest = [await ed.post(f"{path}/comments", json={"text": "more"}) for _ in range(96)]
            assert [answer.status_code for answer in rest] == [200] * 95 + [409]
            assert (await rev.get("/api/audit/verify")).json()["sound"] is True


async def test_a_change_is_undone_redone_and_audited() -> None:
    with proposing() as provider:
        async with (
            service(provider) as running,
            running.as_("rev", "reviewer") as rev,
            running.as_() as ed,
        ):
            approval = await proposed(ed)
            await rev.post(f"/api/approvals/{approval}/decision", json={"verdict": "approve"})
            undone = (await rev.post(f"/api/graphs/{GRAPH}/undo", json={})).json()
            assert undone["undoes"] == approval
            nothing = await rev.post(f"/api/graphs/{GRAPH}/undo", json={})
            assert nothing.status_code == 404
            redo = await rev.post(f"/api/graphs/{GRAPH}/undo", json={"approvalId": undone["id"]})
            assert redo.json()["undoes"] == undone["id"]
            entries = (await rev.get("/api/audit", params={"graphKey": GRAPH})).json()["entries"]
            assert [entry["event"] for entry in entries] == ["redone", "undone", "applied"]
            verdict = AuditVerdict.model_validate((await rev.get("/api/audit/verify")).json())
            assert (verdict.sound, verdict.entries) == (True, 3)
            assert (await rev.get("/api/audit/verify", params={"head": "f" * 64})).json()[
                "sound"
            ] is False
            assert (await ed.get("/api/audit")).status_code == 403


async def test_all_changes_of_a_turn_are_undone_and_redone_in_one_step() -> None:
    rename = call(
        "propose_update_node", {"nodeKey": "root", "changes": {"data.name": "R"}, "reason": "x"}
    )
    both = Says(calls=[call("propose_update_node", CHANGE), rename])
    async with answered(both) as (ed, _, _):
        before = (await ed.get(f"/api/graphs/{GRAPH}/nodes")).json()
        answer = await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "both"})
        ids = [one["id"] for one in answer.json()["approvals"]]
        for one in ids:
            await ed.post(f"/api/approvals/{one}/decision", json={"verdict": "approve"})
        after = (await ed.get(f"/api/graphs/{GRAPH}/nodes")).json()
        undone = (await ed.post(f"/api/graphs/{GRAPH}/undo", json={"turn": True})).json()
        assert [undone["undoes"], *undone["undoesAlso"]] == [ids[1], ids[0]]
        assert (await ed.get(f"/api/graphs/{GRAPH}/nodes")).json() == before
        again = {"approvalId": undone["id"]}
        assert (await ed.post(f"/api/graphs/{GRAPH}/undo", json=again)).status_code == 200
        assert (await ed.get(f"/api/graphs/{GRAPH}/nodes")).json() == after


async def test_usage_is_the_callers_own() -> None:
    async with answered("a", "b") as (ed, running, _), running.as_("al") as al:
        for _ in range(2):
            await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "hello"})
        used = UsageAnswer.model_validate((await ed.get("/api/usage")).json())
        assert (used.threads, used.total_tokens) == (2, 220)
        assert [(m.provider, m.model) for m in used.models] == [("scripted", "script-1")]
        assert (await al.get("/api/usage")).json()["totalTokens"] == 0


async def test_an_admin_sees_what_each_person_used_and_nobody_else_does() -> None:
    async with (
        answered("a") as (ed, running, _),
        running.as_("al", "reviewer") as al,
        running.as_("root", "admin") as admin,
        running.as_("stranger", "admin", "globex") as stranger,
    ):
        await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "hello"})
        used = UsageAnswer.model_validate((await admin.get("/api/usage")).json())
        assert (used.threads, used.total_tokens) == (0, 0)
        assert [(p.user_id, p.threads, p.total_tokens) for p in used.people] == [("ed", 1, 110)]
        for other in (ed, al, stranger):
            assert (await other.get("/api/usage")).json()["people"] == []


async def exported() -> dict[str, Any]:
    async with service() as running, running.as_() as ed:
        return (await ed.get(f"/api/graphs/{GRAPH}/export")).json()


@pytest.mark.slow
async def test_a_person_at_their_limit_stops_no_other_and_a_restart_forgets_nothing(
    tmp_path: Path,
) -> None:
    settings = {
        "db": address_in(tmp_path / "one.db"),
        "max_person_tokens": 50_000,
        "max_total_tokens": 500_000,
    }
    costly = Says(text="a", usage=UsageReport(prompt=24_000, completion=1_000))
    with ScriptedProvider(costly, costly, costly) as provider:
        async with (
            service(provider, **settings) as running,
            running.as_() as ed,
            running.as_("al") as al,
        ):
            sample = await exported()
            made = await ed.post("/api/graphs/import", json=sample)
            asked = {"graphKey": made.json()["graphKey"], "message": "hello"}
            for client in (ed, ed, al):
                assert (await client.post("/api/ai/chat", json=asked)).status_code == 200
            refused = await ed.post("/api/ai/chat", json=asked, headers={"Accept-Language": "fr"})
            assert refused.status_code == 429
            assert "votre propre limite du mois" in refused.json()["error"]["message"]
        async with (
            service(provider, **settings) as running,
            running.as_() as ed,
            running.as_("al") as al,
        ):
            assert (await ed.post("/api/ai/chat", json=asked)).status_code == 429
            limits = UsageAnswer.model_validate((await al.get("/api/usage")).json()).limits
            assert [(i.whose, i.used_tokens) for i in limits] == [
                ("person", 25_000),
                ("service", 75_000),
            ]


async def test_the_levels_are_read_by_all_and_set_by_admins_and_reviewers() -> None:
    """A reviewer's demand of the graph is said on the next proposal, on REST and in
    the chat's answer.
    """
    async with service(proposing(CHANGE)) as running:
        async with running.as_("vi", "viewer") as vi, running.as_("ada", "admin") as ada:
            read = (await vi.get("/api/policy")).json()
            assert (len(read["application"]), read["workspace"]) == (6, [])
            for body in ({"classes": ["code"]}, {"classes": ["code"], "graphKey": GRAPH}):
                assert error_of(await vi.put("/api/policy", json=body))["code"] == "forbidden"
            for bad in (
                {"classes": ["all"]},
                {"classes": [], "typeKey": "x"},
                {"classes": "code"},
                {},
            ):
                assert (await ada.put("/api/policy", json=bad)).status_code == 422
            gone = await ada.put("/api/policy", json={"classes": [], "graphKey": "none"})
            assert gone.status_code == 404
            assert (await ada.put("/api/policy", json={"classes": ["types"]})).json()[
                "workspace"
            ] == ["types"]
        async with running.as_("rev", "reviewer") as rev, running.as_() as ed:
            assert (
                error_of(await rev.put("/api/policy", json={"classes": []}))["code"] == "forbidden"
            )
            body = {"classes": ["content"], "graphKey": GRAPH}
            assert (await rev.put("/api/policy", json=body)).json()["graph"] == ["content"]
            chat = await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "warn"})
            (sent,) = chat.json()["approvals"]
            shown = ApprovalDocument.model_validate(
                (await ed.get(f"/api/approvals/{sent['id']}")).json()
            )
            assert "graph: content" in shown.asked
            assert (sent["asked"], sent["parts"]) == (shown.asked, shown.parts)
            assert (shown.needs_person, shown.by_policy, len(shown.parts)) == (True, False, 1)


async def test_a_list_is_bounded_and_what_it_leaves_out_is_read_by_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(approval_documents, "MAX_LISTED", 100_000)
    large = [
        call(
            "propose_update_node",
            {"nodeKey": key, "changes": {"process": key * 2_000}, "reason": "asked"},
        )
        for key in ("error-handler", "fetch-api", "filter-active")
    ]
    async with (
        answered(Says(calls=large)) as (ed, running, _),
        running.as_("rev", "reviewer") as rev,
    ):
        await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "rewrite them"})
        answer = await rev.get("/api/approvals")
        assert len(answer.content) < 150_000
        listed = answer.json()["approvals"]
        short = [one for one in listed if one.get("shortened")]
        assert 0 < len(short) < len(listed) == 3
        for one in short:
            assert (one["preview"], one["codeDiffs"], one["action"]["payload"]) == ({}, [], {})
            assert one["title"]
            whole = (await rev.get(f"/api/approvals/{one['id']}")).json()
            assert "shortened" not in whole
            assert whole["preview"]["nodesChanged"]
        ids = [one["id"] for one in listed]
        body = {"approvalIds": ids, "verdict": "approve"}
        decided = await rev.post("/api/approvals/decisions", json=body)
        assert [one["status"] for one in decided.json()["approvals"]] == ["applied"] * 3
        assert len(decided.content) < 150_000


async def test_code_that_cannot_be_parsed_is_said_before_it_is_approved_on_the_proposal_and_on_an_edit() -> (
    None
):
    broken = {
        "nodeKey": "fetch-api",
        "changes": {"process": "const a = ;\nreturn a;"},
        "reason": "faster",
    }
    provider = ScriptedProvider(Says(calls=[call("propose_update_node", broken)]))
    async with service(provider) as running, running.as_() as ed:
        waiting = await proposed(ed)
        document = (await ed.get(f"/api/approvals/{waiting}")).json()
        assert document["codeErrors"] == [{"key": "fetch-api", "line": 1}]
        assert any("line 1" in text for text in document["warnings"])
        path = f"/api/approvals/{waiting}/code"
        for code, lines in (("return 1;", []), ("return 1;\nif (", [2])):
            payload = {"nodeKey": "fetch-api", "changes": {"process": code}}
            body = {"editedAction": {"type": "update_node", "payload": payload}}
            found = (await ed.post(path, json=body)).json()["codeErrors"]
            assert [one["line"] for one in found] == lines
        python = {
            "changes": {"process": "x = 1\nreturn x", "data.language": "python"},
            "nodeKey": "fetch-api",
        }
        body = {"editedAction": {"type": "update_node", "payload": python}}
        assert (await ed.post(path, json=body)).json() == {"codeErrors": []}

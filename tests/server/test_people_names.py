"""What people are called is known from their tokens, kept by workspace, and told to
who works there.
"""

from __future__ import annotations

from tests.support.service import service, token

ADA = "auth0|64f1c0ffee"


async def test_the_last_name_of_a_token_is_kept_and_told_in_its_workspaces_alone() -> None:
    async with service() as running:
        for name in ("Ada Byron", "Ada Lovelace"):
            async with running.client(token(ADA, name=name)) as ada:
                await ada.get("/api/graphs")
        async with running.client(token(ADA)) as without, running.as_("bob", "viewer") as bob:
            await without.get("/api/graphs")
            assert (await bob.get("/api/people")).json() == {"names": {ADA: "Ada Lovelace"}}
        async with running.as_("eve", "admin", "elsewhere") as eve:
            assert (await eve.get("/api/people")).json() == {"names": {}}


async def test_a_name_of_an_identity_provider_is_the_one_a_person_chose() -> None:
    async with service() as running, running.client(token(ADA, preferred_username="ada")) as ada:
        await ada.get("/api/graphs")
        assert (await ada.get("/api/people")).json() == {"names": {ADA: "ada"}}

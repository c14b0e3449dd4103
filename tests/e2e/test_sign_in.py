"""Signing in at an identity provider, whole: there, back to what was asked for, on and on, and out again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.site import running_site
from tests.support.identity_providers import mock_provider, oidc_settings
from tests.support.service import SECRET, token


def test_somebody_signs_in_at_the_provider_works_on_past_their_token_and_signs_out(
    tmp_path: Path, open_page: OpenPage, trouble: Trouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.sign_in_routes.TOKEN_S", 3)
    with mock_provider(alice=["staff"]) as issuer:
        settings = oidc_settings(issuer, auth_secret=SECRET, auth_leeway_s=0)
        with running_site(tmp_path, graph=False, **settings) as site:
            site.import_graph(token=token())
            (graph,) = site.rest("GET", "/api/graphs", token=token())["graphs"]
            address = f"{site.url}#graph={graph['graphKey']}&sheet=0&panel=chat"
            page = open_page(site, None)
            page.goto(address)
            dialog = page.get_by_role("dialog", name="Sign in")
            expect(dialog.get_by_label("Access token")).to_be_hidden()
            dialog.get_by_role("button", name="Sign in").click()
            page.get_by_role("button", name="alice").click()
            page.wait_for_selector("main[data-state=ready]")
            assert page.url == address
            assert page.evaluate("sessionStorage.getItem('nodius.token')") is None
            other = open_page(site, None, context=page.context)  # another tab is signed in, too
            page.wait_for_timeout(3_500)  # their tokens have expired by now
            other.get_by_role("button", name="NBA Stats Pipeline").first.click()
            for one in (page, other):
                expect(one.locator(".connection.open")).to_be_attached()
                expect(one.locator("dialog[open]")).to_have_count(0)
            page.get_by_role("button", name=re.compile("Sign out: .*Alice")).click()
            page.wait_for_url(f"{issuer}/**")
            page.goto(site.url)
            expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
            page.context.close()
    trouble.forgive(
        "401", "ERR_NAME_NOT_RESOLVED", "404 (NOT FOUND)"
    )  # the provider's page wants a style sheet

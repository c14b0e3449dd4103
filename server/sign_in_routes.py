"""Endpoints with which people sign in to the page and out of it at an OpenID Connect provider.

The browser holds encrypted cookies: one for each sign-in that has begun, then one for the session.
The page's script exchanges the session for short-lived tokens of this service and uses them as any
other token. The cookies are sent to `/auth` alone, so that no other request depends on one.

Decision: the session is in its cookie, sealed, and nowhere else: any server of the same secret goes
on with it, and what ends it is the provider, asked every few minutes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import time
from dataclasses import fields, replace
from pathlib import Path
from string import Template
from typing import Annotated, Any, TypeVar, cast
from urllib.parse import quote, urlsplit

import orjson
from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from graphrag.app.access_tokens import sign_token
from graphrag.i18n import LocalizedError, text
from server.auth import authority
from server.error_responses import error_response, respond
from server.errors import AuthError, ForeignPage
from server.http_connections import network_of
from server.oidc import Attempt, IdentityProvider, PageSession
from server.pages import HEADERS
from server.request_language import language_of
from server.requests import state_of
from tools.base import Role

router = APIRouter(prefix="/auth", include_in_schema=False)

PATH = "/auth"
ATTEMPT, SESSION, SIGNED = "nodius_login_", "nodius_session", "nodius_signed"
"""Names of cookies. `nodius_signed` only tells the page that there is a session."""
ATTEMPT_S = 600
ATTEMPTS = 5  # of one browser at the same time; one more removes the earlier ones
TOKEN_S = 600
MAX_COOKIE = 3_800  # bytes; browsers keep 4,096 with name and attributes
MAX_NEXT = 2_000  # characters
FAILED = Template(Path(__file__).with_name("sign_in_failed.html").read_text(encoding="utf-8"))


def _provider(request: Request) -> IdentityProvider:
    provider = state_of(request).authentication.identity_provider
    if provider is None:
        raise HTTPException(404)
    return provider


def _cookies(request: Request) -> SealedCookies:
    secret = state_of(request).settings.auth.secret
    assert secret is not None, "checked with the settings"
    return SealedCookies(secret.get_secret_value())


@router.get("/login")
async def login(
    request: Request, next: Annotated[str, Query(max_length=MAX_NEXT)] = ""
) -> Response:
    """Redirects to the provider. `next`: the page to return to; only its fragment is used."""
    provider = _provider(request)
    try:
        back = str(request.url_for("callback"))
        url, attempt = await provider.begin(back, _fragment(next))
    except LocalizedError as exc:
        return _failed(request, exc, next)
    answer = RedirectResponse(url, 303)
    begun = [name for name in request.cookies if name.startswith(ATTEMPT)]
    for name in begun if len(begun) >= ATTEMPTS else ():
        answer.delete_cookie(name, path=PATH)
    _keep(
        request,
        answer,
        _name(attempt.state),
        _cookies(request).seal(attempt),
        samesite="lax",
        max_age=ATTEMPT_S,
    )
    return answer


@router.get("/callback")
async def callback(
    request: Request,
    code: Annotated[str, Query(max_length=4_096)] = "",
    state: Annotated[str, Query(max_length=200)] = "",
    iss: Annotated[str | None, Query(max_length=2_000)] = None,
    error: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Receives the browser that the provider redirects back, once for each attempt."""
    provider = _provider(request)
    name = _name(state)
    fragment = ""
    try:
        attempt = _cookies(request).open(Attempt, request.cookies.get(name, ""), within_s=ATTEMPT_S)
        if attempt is None or not state or attempt.state != state:
            raise AuthError(code="sign_in_stale")
        fragment = attempt.fragment
        if error or not code or iss not in (None, state_of(request).settings.oidc.issuer):
            raise AuthError(
                code="sign_in_denied" if error == "access_denied" else "sign_in_refused"
            )
        host = request.client.host if request.client else ""
        session = await provider.finish(attempt, code, network=network_of(host))
        answer: Response = RedirectResponse(f"/#{fragment}" if fragment else "/", 303)
        _keep_session(request, answer, session)
    except LocalizedError as exc:
        answer = _failed(request, exc, f"/#{fragment}")
    answer.delete_cookie(name, path=PATH)
    return answer


@router.post("/token")
async def token(request: Request) -> Response:
    """Returns a token for the session and its lifetime in seconds; 204 without a provider."""
    provider = state_of(request).authentication.identity_provider
    if provider is None:
        return Response(status_code=204)
    try:
        _check_own(request)
        session = _cookies(request).open(PageSession, request.cookies.get(SESSION, ""))
        if session is None:
            raise AuthError(code="sign_in_ended")
        is_due = time.time() >= session.good_until
        if is_due:
            session = await provider.renew(session)
        signed, expires = sign_token(
            state_of(request).settings,
            user=session.user_id,
            role=cast(Role, session.role),
            workspaces=session.workspaces,
            username=session.username,
            lifetime_s=TOKEN_S if session.refresh else min(TOKEN_S, session.ends - time.time()),
        )
    except LocalizedError as exc:
        failed = respond(request, exc)
        if isinstance(exc, AuthError):
            _forget(failed)
        return failed
    answer = JSONResponse({"token": signed, "expiresIn": int(expires - time.time())})
    if is_due:
        _keep_session(request, answer, session)
    return answer


@router.post("/logout")
async def logout(request: Request) -> Response:
    """Ends the session; returns the address where the browser signs out of the provider too."""
    provider = _provider(request)
    try:
        _check_own(request)
    except ForeignPage as exc:
        return respond(request, exc)
    session = _cookies(request).open(PageSession, request.cookies.get(SESSION, ""))
    url = ""
    try:
        if session is not None:
            url = await provider.end(session, str(request.base_url))
    except LocalizedError:
        pass  # the person is signed out of this service, at least
    answer = JSONResponse({"url": url or "/"})
    _forget(answer)
    return answer


def _name(state: str) -> str:
    return ATTEMPT + hashlib.sha256(state.encode()).hexdigest()[:16]


def _fragment(address: str) -> str:
    """Returns the fragment of an address, with which the page shows the same view again.

    The rest is dropped, so that the browser is never sent to another site.
    """
    try:
        return quote(urlsplit(address).fragment, safe="/?:@!$&'()*+,;=-._~%")
    except ValueError:
        return ""


def _check_own(request: Request) -> None:
    """Raises: ForeignPage for requests that the page itself did not send."""
    if authority(request.headers.get("origin", "")) != request.headers.get("host", "").lower():
        raise ForeignPage


def _keep(request: Request, answer: Response, name: str, value: str, **more: Any) -> None:
    """Sets a cookie. Without `max_age` it ends with the browser."""
    given: dict[str, Any] = {
        "path": PATH,
        "httponly": True,
        "samesite": "strict",
        "secure": request.url.scheme == "https",
    }
    answer.set_cookie(name, value, **given | more)


def _keep_session(request: Request, answer: Response, session: PageSession) -> None:
    sealed = _cookies(request).seal(session)
    if len(sealed) > MAX_COOKIE:  # without its refresh token, it ends when it is due
        sealed = _cookies(request).seal(replace(session, refresh=""))
    _keep(request, answer, SESSION, sealed)
    _keep(request, answer, SIGNED, "1", path="/", httponly=False)


def _forget(answer: Response) -> None:
    answer.delete_cookie(SESSION, path=PATH)
    answer.delete_cookie(SIGNED, path="/")


def _failed(request: Request, exc: LocalizedError, back: str) -> HTMLResponse:
    """Returns a page with the error and a link to try again."""
    language = language_of(request)
    answer = error_response(exc, language, getattr(request.state, "request_id", ""))
    facts = {
        name: text(name, language) for name in ("sign_in_failed", "sign_in_again", "sign_in_page")
    }
    again = f"/auth/login?next={quote('/#' + _fragment(back), safe='')}"
    given = {**facts, "language": language, "message": answer.message, "again": again}
    page = FAILED.substitute({name: html.escape(value) for name, value in given.items()})
    return HTMLResponse(page, answer.status, {**HEADERS, "Cache-Control": "no-store"})


T = TypeVar("T")


class SealedCookies:
    """Encrypts and signs dataclasses for cookies, each class with a key of its own."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def _box(self, kind: str) -> Fernet:
        info = f"nodius cookie {kind}".encode()
        key = HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(self._secret)
        return Fernet(base64.urlsafe_b64encode(key))

    def seal(self, value: Any) -> str:
        """Returns the encrypted text of a dataclass."""
        return self._box(type(value).__name__).encrypt(orjson.dumps(value)).decode()

    def open(self, kind: type[T], sealed: str, *, within_s: int | None = None) -> T | None:
        """Returns the sealed object; None if it is forged, of another class, or too old."""
        try:
            values: Any = orjson.loads(
                self._box(kind.__name__).decrypt(sealed.encode(), ttl=within_s)
            )
            names = {field.name for field in fields(kind)}  # pyright: ignore[reportArgumentType]
            return kind(**{name: value for name, value in values.items() if name in names})
        except (InvalidToken, UnicodeError, TypeError):
            return None

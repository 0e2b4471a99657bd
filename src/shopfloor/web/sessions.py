"""Cookies of the pages: who is signed in, and whether a form was sent by one of our pages.

The session is a token in a cookie that scripts cannot read and that browsers do not send from other sites. Each form
carries a second token, an HMAC of the visitor's cookies, which only this server can compute.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response

from shopfloor.engine import Engine
from shopfloor.errors import InvalidInput, PermissionDenied, Unauthenticated, WrongPassword
from shopfloor.toolkit import REMOTE_KEY, Credential

FORM_HEADER = "x-csrf-token"
FORM_FIELD = "csrf"


class PageSessions:
    """Reads and sets the cookies of one server's pages."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._key = engine.sessions.secret
        # Browsers share cookies between ports, so two servers on one machine need different names.
        suffix = hashlib.sha256(self._key).hexdigest()[:8]
        self.session_cookie = f"shopfloor_{suffix}"
        self.visitor_cookie = f"shopfloor_visitor_{suffix}"

    async def authenticate(self, request: Request) -> Credential:
        """Return who is signed in. Without a valid session, return the operator if the server needs no credential
        yet."""
        identity = self._engine.identity
        address = request.client.host if request.client else ""
        if token := request.cookies.get(self.session_cookie):
            shown = Credential(token=token, address=address)
            try:
                return Credential(trusted=await asyncio.to_thread(identity.authenticate, shown))
            except Unauthenticated:
                # An expired session on a server that is still open to its own machine.
                pass
        nothing = Credential(remote=request.scope[REMOTE_KEY], address=address)
        return Credential(trusted=await asyncio.to_thread(identity.authenticate, nothing))

    async def sign_in(self, name: str, password: str, address: str) -> str:
        """Open a session for a user with the right password, and return its token."""
        return await asyncio.to_thread(self.open_session, name, password, address)

    def open_session(self, name: str, password: str, address: str) -> str:
        """Sign in on this thread."""
        # Attempts are counted before the call, so that a flood of wrong passwords does not fill the log.
        with self._engine.sessions.limit_attempts(name, address):
            try:
                opened = self._engine.call_desk("session_open", {"name": name, "password": password}, "web")
            except InvalidInput:
                # No user can have such a name. The response is the same, so that names cannot be guessed.
                raise WrongPassword from None
        return str(opened["token"])

    def needs_credential(self) -> bool:
        """Return whether callers on this machine need a credential too."""
        return self._engine.identity.needs_credential()

    async def open_operator_session(self) -> str:
        """Open a session for the operator, and return its token."""
        link = await asyncio.to_thread(self._engine.call_desk, "link_create", {}, "web")
        return await self.redeem_link(str(link["token"]))

    async def redeem_link(self, token: str) -> str:
        """Exchange the token of a sign-in link for a session, and return its token."""
        try:
            opened = await asyncio.to_thread(self._engine.call_desk, "link_redeem", {"token": token}, "web")
        except InvalidInput:
            raise Unauthenticated("This link has been used or has expired") from None
        return str(opened["token"])

    async def end(self, token: str) -> None:
        """End a session; it stops working immediately."""
        # InvalidInput: the cookie was not set by a server.
        with suppress(InvalidInput):
            await asyncio.to_thread(self._engine.call_desk, "session_end", {"token": token}, "web")

    def form_token(self, request: Request) -> str:
        """Return the token for this visitor's forms; a new visitor gets a cookie with the response."""
        visitor = request.cookies.get(self.visitor_cookie) or request.scope.get(self.visitor_cookie)
        if visitor is None:
            visitor = request.scope[self.visitor_cookie] = secrets.token_urlsafe(24)
        return self._compute_form_token(visitor, request)

    def check_form_token(self, request: Request, given: str | None) -> None:
        """Reject a form that was not made for this visitor."""
        visitor = request.cookies.get(self.visitor_cookie, "")
        expected = self._compute_form_token(visitor, request)
        # compare_digest takes the same time for every wrong token, so its timing reveals nothing about the right one.
        if not visitor or not hmac.compare_digest(expected.encode(), (given or "").encode()):
            raise PermissionDenied("This form is no longer valid", hint="Reload the page and send the form again")

    def set_visitor_cookie(self, request: Request, response: Response) -> Response:
        """Set the cookie of a visitor that is new to `form_token`; return the response."""
        if visitor := request.scope.get(self.visitor_cookie):
            self.set_cookie(request, response, self.visitor_cookie, visitor)
        return response

    def set_session_cookie(self, request: Request, response: Response, token: str) -> None:
        self.set_cookie(request, response, self.session_cookie, token, self._engine.sessions.seconds)

    def clear_session_cookie(self, request: Request, response: Response) -> None:
        self.set_cookie(request, response, self.session_cookie, "", 0)

    def _compute_form_token(self, visitor: str, request: Request) -> str:
        # The session is part of it: a token from before the sign-in is worthless afterwards.
        cookies = f"{visitor}\n{request.cookies.get(self.session_cookie, '')}".encode()
        return base64.urlsafe_b64encode(hmac.digest(self._key, cookies, "sha256")).decode().rstrip("=")

    def set_cookie(self, request: Request, response: Response, name: str, value: str, age: int | None = None) -> None:
        """Set a cookie that only this server's own pages send back."""
        # A Secure cookie would never be sent over plain HTTP, which is how a server on loopback is reached. Behind a
        # proxy with TLS the request also arrives over plain HTTP, and the public URL says what the browser sees.
        scheme, _, host = (self._engine.settings.public_url or "").partition("://")
        is_public = request.scope[REMOTE_KEY] or request.headers.get("host", "").lower() == host.lower()
        secure = request.url.scheme == "https" or (scheme == "https" and is_public)
        response.set_cookie(name, value, max_age=age, httponly=True, samesite="strict", secure=secure, path="/")

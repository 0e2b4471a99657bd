"""Who looks at a page, and whether a form was really sent by one of ours.

The session is a token in a cookie that no script can read and no other site makes a browser send. A form carries a
token that only this floor can make from the visitor's cookies.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets

from starlette.requests import Request
from starlette.responses import Response

from shopfloor.app import Floor
from shopfloor.errors import PermissionDenied, Unauthenticated
from shopfloor.toolkit import Credential

FORM_HEADER = "x-csrf-token"
FORM_FIELD = "csrf"


class Visits:
    """Sessions and form tokens of one floor."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._key = floor.sessions.secret
        name = hashlib.sha256(self._key).hexdigest()[:8]  # cookies do not know ports: two floors must not share one
        self.session_cookie = f"shopfloor_{name}"
        self.visitor_cookie = f"shopfloor_visitor_{name}"

    async def credential(self, request: Request) -> Credential:
        """Who signed in; on a floor that needs no credential yet, whoever sits at the machine."""
        shown = request.cookies.get(self.session_cookie)
        identity = self._floor.identity
        if shown is None:
            return Credential(trusted=await asyncio.to_thread(identity.authenticate, Credential()))
        try:
            return Credential(trusted=await asyncio.to_thread(identity.authenticate, Credential(token=shown)))
        except Unauthenticated:
            return Credential(trusted=await asyncio.to_thread(identity.authenticate, Credential()))

    def form_token(self, request: Request) -> str:
        """What the forms of this visitor carry."""
        visitor = request.cookies.get(self.visitor_cookie) or request.scope.get(self.visitor_cookie)
        if visitor is None:
            visitor = request.scope[self.visitor_cookie] = secrets.token_urlsafe(24)
        return self._made(visitor, request)

    def check(self, request: Request, given: str | None) -> None:
        """Refuse a form that was not made for this visitor."""
        visitor = request.cookies.get(self.visitor_cookie, "")
        if not visitor or not hmac.compare_digest(self._made(visitor, request).encode(), (given or "").encode()):
            raise PermissionDenied("This form is no longer valid", hint="Open the page again, then send it once more")

    def welcome(self, request: Request, response: Response) -> Response:
        """The response, with the cookie of a new visitor."""
        if fresh := request.scope.get(self.visitor_cookie):
            self._set(request, response, self.visitor_cookie, fresh)
        return response

    def sign_in(self, request: Request, response: Response, token: str) -> None:
        self._set(request, response, self.session_cookie, token, self._floor.sessions.seconds)

    def sign_out(self, request: Request, response: Response) -> None:
        self._set(request, response, self.session_cookie, "", 0)

    def _made(self, visitor: str, request: Request) -> str:
        about = f"{visitor}\n{request.cookies.get(self.session_cookie, '')}".encode()
        return base64.urlsafe_b64encode(hmac.digest(self._key, about, "sha256")).decode().rstrip("=")

    def _set(self, request: Request, response: Response, name: str, value: str, age: int | None = None) -> None:
        secure = request.url.scheme == "https"
        response.set_cookie(name, value, max_age=age, httponly=True, samesite="strict", secure=secure, path="/")

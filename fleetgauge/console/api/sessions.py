"""Permission to change something: for a user of `http.users.file` with the role operate, and for the bearer of the
token in `console.operate.token.file`; in a browser only from this page.

A session is a cookie that is signed with the token, so that it outlasts a restart and a new token ends all. Pages of
other origins cannot use it: the cookie is SameSite=Strict, a change needs a header that they cannot send, and what the
browser says of the origin is checked.
"""

import hashlib
import hmac
import secrets
import time
from typing import Final, Literal

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fleetgauge.http.connection import ACCESS, USER

COOKIE: Final = "fleetgauge_operate"
CSRF_HEADER: Final = "X-CSRF-Token"
SESSION_S: Final = 12 * 3600
_READ_ONLY: Final = (
    "this page is read-only: the configuration has no token (console.operate.token.file), and your user does not "
    "have the role operate (http.users.file)"
)


class Sessions:
    """Sessions based on one token.

    Args:
        token: None if nothing may be changed.
    """

    def __init__(self, token: str | None) -> None:
        self._token = token
        self._key = (token or secrets.token_hex(32)).encode()

    @property
    def can_log_in(self) -> bool:
        """True if there is a token."""
        return self._token is not None

    def role(self, request: Request) -> Literal["read", "operate"]:
        """Role of the request's sender."""
        return "read" if self._session(request) is None and _operator(request) is None else "operate"

    def csrf(self, request: Request) -> str | None:
        """CSRF token that changes in this session carry in a header; None without a session."""
        session = self._session(request) or _operator(request)
        return None if session is None else self._sign("csrf", session)

    def check_change(self, request: Request) -> None:
        """Returns if the request may change something.

        Raises:
            HTTPException: 403, with a sentence.
        """
        check_origin(request)
        if _operator(request) is not None and _has_token(request):
            return  # which no browser sends by itself
        csrf = self.csrf(request)
        if self._token is None and csrf is None:
            raise HTTPException(403, _READ_ONLY)
        if csrf is None:
            raise HTTPException(403, "log in first, with the token: POST /api/session")
        if not _equal(request.headers.get(CSRF_HEADER, ""), csrf):
            raise HTTPException(403, f"the header {CSRF_HEADER} must be the csrf of GET /api/session")

    async def log_in(self, request: Request, token: str, response: Response) -> None:
        """Gives the bearer of the token a session.

        Raises:
            HTTPException: 403, with a sentence; 429 after too many failures.
        """
        check_origin(request)
        if self._token is None:
            raise HTTPException(403, _READ_ONLY)
        if not _equal(token.strip(), self._token):
            await _note_failure(request)
            raise HTTPException(403, "this is not the token in console.operate.token.file")
        session = f"{int(time.time()) + SESSION_S}.{secrets.token_hex(8)}"
        value = f"{session}.{self._sign('session', session)}"
        response.set_cookie(
            COOKIE, value, max_age=SESSION_S, httponly=True, samesite="strict", secure=request.url.scheme == "https"
        )

    def _session(self, request: Request) -> str | None:
        """The session of a valid cookie that is not too old."""
        session, _, signature = request.cookies.get(COOKIE, "").rpartition(".")
        if self._token is None or not session or not _equal(signature, self._sign("session", session)):
            return None
        return session if int(session.partition(".")[0]) > time.time() else None

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()


def _operator(request: Request) -> str | None:
    """The user of the request's own credentials, if its role is operate; sessions never have this form."""
    user = request.scope.get(USER)
    return f"user:{user.name}" if user is not None and user.role == "operate" else None


def _has_token(request: Request) -> bool:
    return request.headers.get("authorization", "").lower().startswith("bearer ")


async def _note_failure(request: Request) -> None:
    access = request.scope.get(ACCESS)
    address = request.client.host if request.client else ""
    if access is None:
        return
    if access.is_limited(address):
        raise HTTPException(429, "too many log-ins from this address have failed; try again in a minute")
    await access.fail(address, "wrong_token")


def check_origin(request: Request) -> None:
    """Returns if a change does not come from a page of another origin.

    Raises:
        HTTPException: 403, with a sentence.
    """
    host, origin = request.headers.get("host"), request.headers.get("origin")
    site = request.headers.get("sec-fetch-site")
    allowed = {None, f"{request.url.scheme}://{host}"}
    if site == "same-origin":  # the browser has compared the schemes itself: a proxy before us may have the TLS
        allowed.add(f"https://{host}")
    if origin not in allowed or site not in (None, "same-origin", "none"):
        raise HTTPException(403, "changes are accepted only from this page, not from another origin")


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), wanted.encode())

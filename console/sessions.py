"""Who may change something: the bearer of the token in `console.operate.token.file`, from this page alone.

A session is a cookie that is signed with the token, so that it outlasts a restart and a new token ends all. Pages of
other origins cannot use it: the cookie is SameSite=Strict, a change needs a header that they cannot send, and what the
browser says of the origin is checked.
"""

import hashlib
import hmac
import secrets
import time
from typing import Final, Literal
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

COOKIE: Final = "fleetgauge_operate"
CSRF_HEADER: Final = "X-CSRF-Token"
SESSION_S: Final = 12 * 3600
_READ_ONLY: Final = "this page is read-only: console.operate.token.file in the configuration names no token"


class Sessions:
    """Sessions by one token.

    Args:
        token: None if nothing may be changed.
    """

    def __init__(self, token: str | None) -> None:
        self._token = token

    @property
    def can_log_in(self) -> bool:
        """True if there is a token."""
        return self._token is not None

    def role(self, request: Request) -> Literal["read", "operate"]:
        """What the sender of a request may do."""
        return "read" if self._session(request) is None else "operate"

    def csrf(self, request: Request) -> str | None:
        """The text that changes of this session carry in the header; None without a session."""
        session = self._session(request)
        return None if session is None else self._sign("csrf", session)

    def check_change(self, request: Request) -> None:
        """Returns if the request may change something.

        Raises:
            HTTPException: 403, with a sentence.
        """
        check_origin(request)
        if self._token is None:
            raise HTTPException(403, _READ_ONLY)
        csrf = self.csrf(request)
        if csrf is None:
            raise HTTPException(403, "log in first, with the token: POST /api/session")
        if not _equal(request.headers.get(CSRF_HEADER, ""), csrf):
            raise HTTPException(403, f"the header {CSRF_HEADER} must be the csrf of GET /api/session")

    def log_in(self, request: Request, token: str, response: Response) -> None:
        """Gives the bearer of the token a session.

        Raises:
            HTTPException: 403, with a sentence.
        """
        check_origin(request)
        if self._token is None:
            raise HTTPException(403, _READ_ONLY)
        if not _equal(token.strip(), self._token):
            raise HTTPException(403, "this is not the token in console.operate.token.file")
        session = f"{int(time.time()) + SESSION_S}.{secrets.token_hex(8)}"
        value = f"{session}.{self._sign('session', session)}"
        response.set_cookie(COOKIE, value, max_age=SESSION_S, httponly=True, samesite="strict")

    def _session(self, request: Request) -> str | None:
        """The session of a cookie that is ours and not too old."""
        session, _, signature = request.cookies.get(COOKIE, "").rpartition(".")
        if self._token is None or not session or not _equal(signature, self._sign("session", session)):
            return None
        return session if int(session.partition(".")[0]) > time.time() else None

    def _sign(self, purpose: str, text: str) -> str:
        assert self._token is not None
        return hmac.new(self._token.encode(), f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()


def check_origin(request: Request) -> None:
    """Returns if a change does not come from a page of another origin.

    Raises:
        HTTPException: 403, with a sentence.
    """
    origin = request.headers.get("origin")
    is_same_host = origin is None or urlsplit(origin).netloc == request.headers.get("host")
    if not is_same_host or request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(403, "changes are taken from this page itself, not from one of another origin")


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), wanted.encode())

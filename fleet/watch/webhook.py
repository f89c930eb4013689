"""Alerts to a webhook: JSON by POST, tried again on what may pass, for so long and no longer."""

import json
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPException
from typing import IO, Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from base.clock import Time
from fleet.errors import FleetError

MAX_ALERTS: Final = 100
"""Alerts in one request, at most."""

_PASSING: Final = frozenset((408, 425, 429, 500, 502, 503, 504))
_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 30.0
_READ_BYTES: Final = 4_096


class WebhookError(FleetError):
    """A webhook is no URL, refuses, or does not answer for too long."""


class WatchStoppedError(FleetError):
    """The watch was told to stop while it waited; what was not delivered is delivered after the next start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Where to, and how long.

    Attributes:
        url: `http://` or `https://`.
        headers: further ones, such as `Authorization`.
        timeout_s: of one request [s].
        give_up_after_s: from the first failure of a request on [s].
    """

    url: str = field(repr=False)  # a token may be part of it
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 10.0
    give_up_after_s: float = 300.0

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_url = False
        if not is_url:
            raise WebhookError("the webhook is no URL: give one that begins with http:// or https://")

    @property
    def place(self) -> str:
        """Names it without what may be secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"


def parse_headers(texts: Iterable[str]) -> dict[str, str]:
    """Headers as `Name: value`.

    >>> parse_headers(["Authorization: Bearer abc"])
    {'Authorization': 'Bearer abc'}
    """
    parsed = {}
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or not name.strip() or not name.strip().isascii() or any(c in text for c in "\r\n"):
            raise WebhookError("a header of the webhook is given as 'Name: value', such as 'Authorization: Bearer ...'")
        parsed[name.strip()] = value.strip()
    return parsed


class _NoRedirects(HTTPRedirectHandler):
    """A POST that is led elsewhere would become a GET without the alerts."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Request | None:
        return None


class Webhook:
    """Sends alerts.

    Args:
        settings: where to.
        clock: the time.
        wait: waits for so long [s]; True if the watch is to stop.
        note: told in a sentence when it does not answer and is tried again.
        chance: for the jitter, between 0 and 1.
    """

    def __init__(
        self,
        settings: WebhookSettings,
        *,
        clock: Time,
        wait: Callable[[float], bool],
        note: Callable[[str], None],
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._wait = wait
        self._note = note
        self._chance = chance
        self._opener = build_opener(_NoRedirects())

    def send(self, alerts: list[dict[str, Any]]) -> None:
        """One request, with MAX_ALERTS at most; comes back once it was taken.

        Raises:
            WebhookError: it was refused for good, or tried for too long.
            WatchStoppedError: the watch is to stop.
        """
        body = json.dumps({"alerts": alerts}).encode()
        began_ms = self._clock.hi_res_clock_ms()
        bound_s = _FIRST_WAIT_S
        while (problem := self._post(body)) is not None:
            waited_s = (self._clock.hi_res_clock_ms() - began_ms) / 1_000
            place = self._settings.place
            if waited_s >= self._settings.give_up_after_s:
                raise WebhookError(
                    f"the webhook {place} did not take {len(alerts)} alerts for {waited_s:.0f} s ({problem}): they are "
                    "sent again after the next start"
                )
            self._note(f"the webhook {place} does not take {len(alerts)} alerts ({problem}): trying again")
            if self._wait(bound_s * (0.5 + 0.5 * self._chance())):
                raise WatchStoppedError("stopped while the webhook did not answer")
            bound_s = min(bound_s * 2, _LONGEST_WAIT_S)

    def _post(self, body: bytes) -> str | None:
        """None if it was taken, or what is wrong and may pass."""
        headers = {"Content-Type": "application/json", "User-Agent": "fleetgauge", **self._settings.headers}
        request = Request(self._settings.url, data=body, headers=headers, method="POST")  # noqa: S310  # checked above
        try:
            with self._opener.open(request, timeout=self._settings.timeout_s) as response:
                response.read(_READ_BYTES)
        except HTTPError as error:
            with error:
                said = f"it answers {error.code} {error.reason}"
            if error.code in _PASSING:
                return said
            raise WebhookError(
                f"the webhook {self._settings.place} refuses alerts: {said}; they are sent again after the next start"
            ) from error
        except (OSError, HTTPException) as error:
            return str(getattr(error, "reason", None) or error) or type(error).__name__
        return None

"""The bound on failed log-ins of the HTTP ports, over minutes of a clock that the test sets."""

import asyncio

from cachetools import TTLCache

from fleetgauge.http.access import FAILURES_FOR_S, MAX_FAILURES, Access, AccessSettings


def test_an_address_is_limited_for_a_minute_from_its_first_failure_on() -> None:
    """A client with an outdated password that comes every few seconds must not lock out its neighbours for good."""
    now = [0.0]
    access = Access(AccessSettings())
    access.failure_delay_s = 0.0
    access._failed = TTLCache(10, FAILURES_FOR_S, timer=lambda: now[0])

    async def scenario() -> list[float]:
        limited = []
        for _ in range(10 * MAX_FAILURES):
            await access.fail("192.0.2.7", "wrong_password")
            if access.is_limited("192.0.2.7"):
                limited.append(now[0])
            assert not access.is_limited("192.0.2.8")
            now[0] += 10.0
        return limited

    assert asyncio.run(scenario()) == []

    async def flood() -> bool:
        for _ in range(MAX_FAILURES):
            await access.fail("192.0.2.7", "wrong_password")
        return access.is_limited("192.0.2.7")

    assert asyncio.run(flood())
    now[0] += FAILURES_FOR_S
    assert not access.is_limited("192.0.2.7")

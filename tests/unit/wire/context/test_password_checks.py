"""Password checks: whose turn it is, how many may wait, and what becomes of those that may not."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

from structlog.testing import capture_logs
from support.waiting import PATIENCE_S

from fleetgauge.wire.context.password_checks import PasswordChecks
from fleetgauge.wire.sasl.mechanism import PasswordCheck


class Bench:
    """Checks that wait for `go`, the first one at work; they end in the order in which they were made."""

    def __init__(self, max_waiting: int) -> None:
        self.checks = PasswordChecks(max_waiting)
        self.go = threading.Event()
        self.order: list[str] = []
        self.results: dict[str, asyncio.Future[bool | None]] = {}

    def submit(self, name: str, network: str, *, fits: bool = True) -> None:
        def run() -> bool:
            assert self.go.wait(PATIENCE_S)
            self.order.append(name)
            return fits

        self.results[name] = self.checks.submit(PasswordCheck(run), network, asyncio.get_running_loop())

    async def finish(self) -> dict[str, bool | None]:
        self.go.set()
        values = await asyncio.wait_for(asyncio.gather(*self.results.values()), PATIENCE_S)
        return dict(zip(self.results, values, strict=True))


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())


def test_a_check_that_breaks_is_no_verdict_and_the_next_is_run() -> None:
    async def scenario() -> None:
        checks, loop = PasswordChecks(80), asyncio.get_running_loop()

        def breaks() -> bool:
            raise MemoryError

        with capture_logs() as logs:
            broken = checks.submit(PasswordCheck(breaks), "a", loop)
            good = checks.submit(PasswordCheck(lambda: True), "a", loop)
            found = await asyncio.wait_for(asyncio.gather(broken, good), PATIENCE_S)
            assert list(found) == [None, True]
        assert [entry["event"] for entry in logs] == ["wire.password_check_failed"]
        checks.close()

    run(scenario)


def test_networks_take_turns() -> None:
    async def scenario() -> None:
        bench = Bench(80)
        for name in ("a0", "a1", "a2", "a3", "b0", "c0", "b1"):
            bench.submit(name, name[0])
        await bench.finish()
        assert bench.order == ["a0", "a1", "b0", "c0", "a2", "b1", "a3"]
        bench.checks.close()

    run(scenario)


def test_a_network_whose_latest_password_was_wrong_comes_after_the_others() -> None:
    async def scenario() -> None:
        bench = Bench(80)
        bench.submit("wrong", "a", fits=False)
        assert await bench.finish() == {"wrong": False}
        bench.go.clear()
        for name in ("b0", "a0", "a1", "c0", "c1"):
            bench.submit(name, name[0])
        await bench.finish()
        assert bench.order == ["wrong", "b0", "c0", "c1", "a0", "a1"]
        bench.order.clear()
        bench.go.clear()
        for name in ("b0", "a0", "c0"):
            bench.submit(name, name[0])
        await bench.finish()
        assert bench.order == ["b0", "a0", "c0"], "a right password makes up for it"
        bench.checks.close()

    run(scenario)


def test_a_network_has_an_eighth_of_the_room_and_what_is_over_it_is_not_checked() -> None:
    async def scenario() -> None:
        bench = Bench(16)
        for number in range(5):
            bench.submit(f"a{number}", "a")
        bench.submit("b0", "b")
        assert await bench.finish() == {"a0": True, "a1": True, "a2": True, "a3": None, "a4": None, "b0": True}
        bench.checks.close()

    run(scenario)


def test_a_full_queue_makes_room_for_a_network_that_has_less_than_others() -> None:
    async def scenario() -> None:
        bench = Bench(16)
        bench.submit("first", "x")
        for network in range(8):
            for number in range(2):
                bench.submit(f"{network}-{number}", str(network))
        bench.submit("honest", "honest")
        results = await bench.finish()
        assert results["honest"] is True
        assert [name for name, fits in results.items() if fits is None] == ["0-1"], "the newest of a longest queue"
        bench.checks.close()

    run(scenario)


def test_a_full_queue_of_equals_refuses_the_newest_unless_another_has_sent_a_wrong_password() -> None:
    async def scenario() -> None:
        bench = Bench(2)
        bench.submit("wrong", "a", fits=False)
        await bench.finish()
        bench.go.clear()
        for network in "xbcd":
            bench.submit(network, network)
        bench.results["c"].cancel()
        await asyncio.sleep(0)
        bench.submit("a", "a")
        bench.submit("e", "e")
        del bench.results["c"]
        assert await bench.finish() == {"wrong": False, "x": True, "b": True, "d": None, "a": None, "e": True}
        assert "c" not in bench.order, "the check of a connection that has ended is left out"
        bench.checks.close()

    run(scenario)

"""The one way in which tests wait, and that no test waits in another one."""

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import waiting
from support.waiting import WaitedInVainError, follow, ticking, unfollow, wait_for, wait_for_async

TESTS = Path(__file__).resolve().parents[1]
PROGRAMS = {
    "support/waiting.py": "is the one way",
    "support/programs/bad_reporters.py": "blocks a node from within on purpose",
    "support/clients/good_clients.py": "measures what its clients' pushes take, at their pace",
    "support/clients/rdkafka_round_trip.py": "runs behind a library that replaces parts of libc, alone",
    "support/clients/rdkafka_workers.py": "works at a pace of its own",
    "support/clients/slowing_consumer.py": "sleeps between its polls on purpose",
    "try_installation.py": "is run where only the wheel is installed",
}
"""Files that may sleep and read the clock, each with the reason: programs that are started as clients, and loads."""
CLOCKS = {"time.sleep", "time.monotonic", "time.perf_counter"}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.2)


def test_a_wait_returns_the_first_value_that_is_accepted() -> None:
    numbers = iter(range(10))
    assert wait_for(lambda: next(numbers), "three", until=lambda number: number >= 3) == 3


def test_a_wait_on_the_loop_lets_it_run() -> None:
    async def scenario() -> str:
        values: list[str] = []
        asyncio.get_running_loop().call_later(0.01, values.append, "came")
        return (await wait_for_async(lambda: values, "a value"))[0]

    assert asyncio.run(scenario()) == "came"


@pytest.mark.usefixtures("impatient")
def test_a_wait_in_vain_names_what_it_waited_for_what_it_saw_and_the_logs(tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_text("early\n" * 100 + "the disk is full\n")
    follow(log)
    try:
        with pytest.raises(WaitedInVainError, match=r"in vain for five pushes; last seen: 4") as caught:
            wait_for(lambda: 4, "five pushes", until=lambda count: count == 5)
    finally:
        unfollow(log)
    assert "the disk is full" in str(caught.value)
    assert str(caught.value).count("early") == 39
    assert (caught.value.what, caught.value.seen) == ("five pushes", 4)


@pytest.mark.usefixtures("impatient")
def test_an_exception_that_means_not_yet_is_what_was_seen_last() -> None:
    def read() -> int:
        raise ConnectionRefusedError("no listener")

    with pytest.raises(WaitedInVainError, match="last seen: no listener"):
        wait_for(read, "an answer", ignoring=(OSError,))


def test_any_other_exception_ends_the_wait() -> None:
    def read() -> int:
        raise AssertionError("the node ended")

    with pytest.raises(AssertionError, match="the node ended"):
        wait_for(read, "an answer")


def test_a_pace_ends_by_itself() -> None:
    assert sum(1 for _ in ticking(0.05, every_s=0.01)) >= 1


def test_no_test_waits_in_another_way() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}: {name}; use support.waiting"
        for path in sorted(TESTS.rglob("*.py"))
        if str(path.relative_to(TESTS)) not in PROGRAMS
        for line, name in clocks(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_every_exception_is_still_needed() -> None:
    assert [name for name in PROGRAMS if not any(clocks(ast.parse((TESTS / name).read_text())))] == []


def clocks(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of each call that sleeps or reads a clock; `asyncio.sleep(0)`, which yields, is none."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            for alias in node.names:
                if f"time.{alias.name}" in CLOCKS:
                    yield node.lineno, f"time.{alias.name}"
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        yields = node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
        if name in CLOCKS or (name == "asyncio.sleep" and not yields):
            yield node.lineno, name

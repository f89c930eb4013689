"""Answering the pushes of a batch: each connection gets its own, whatever becomes of another."""

from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.programs.push_log import push_of, push_record

from fleetgauge.base.clock import MockTime
from fleetgauge.node.authorizer.settings import AuthorizationSettings
from fleetgauge.node.listener.push import PushHandler
from fleetgauge.node.state.authorization import Authorization
from fleetgauge.telemetry.push import Push
from fleetgauge.wire.messages.push_telemetry import encode_push_telemetry_response

pytestmark = pytest.mark.replaces  # the manager


class Manager:
    """Takes note of outcomes."""

    def __init__(self) -> None:
        self.logged_pushes: list[Push] = []

    def logged(self, pushes: list[Push], now_ms: int) -> None:
        self.logged_pushes += pushes


class Channel:
    connection_id = "c"

    def __init__(self, fault: str = "", *, waits: bool = False) -> None:
        self.fault = fault
        self.waits = waits
        self.answers: list[tuple[int, bytes]] = []
        self.flushed = 0

    def answer(self, slot: int, response: bytes) -> bool:
        if self.fault == "answer":
            raise RuntimeError("a bug")
        self.answers.append((slot, response))
        return self.waits

    def flush(self) -> None:
        self.flushed += 1
        if self.fault == "flush":
            raise RuntimeError("the transport is gone")


def push(channel: Channel, slot: int) -> Push:
    made = push_of(push_record(slot))
    made.reply_to, made.slot, made.correlation_id = channel, slot, 40 + slot
    return made


class Stub:
    """A request quota, and a push log."""

    clock: Any = None

    def record_answer(self, *_: object) -> None:
        raise RuntimeError("the callback's directory is away")


def handler(*, timed: bool = False) -> tuple[PushHandler, Manager]:
    manager, stub = Manager(), Stub()
    stub.clock = (lambda: 5) if timed else None
    authorization = Authorization(AuthorizationSettings(), MockTime())
    arguments: Any = (manager, stub, authorization, MockTime(), stub)
    return PushHandler(*arguments, plugin_export_timeout_ms=1), manager


def test_a_fault_on_one_connection_does_not_keep_the_others_from_their_answers() -> None:
    pushes, manager = handler()
    broken, torn, good = Channel("answer"), Channel("flush", waits=True), Channel(waits=True)
    batch = [push(broken, 1), push(torn, 2), push(good, 3)]
    with capture_logs() as logs:
        pushes.answer(batch, None)
    assert manager.logged_pushes == batch
    assert good.answers == [(3, encode_push_telemetry_response(43, 0, 0))]
    assert good.flushed == torn.flushed == 1
    assert len(logs) == 2
    assert pushes.answers == {"NONE": 3}


def test_a_connection_is_flushed_once_for_all_its_answers_and_not_if_each_was_written() -> None:
    pushes, _ = handler()
    several, alone = Channel(waits=True), Channel()
    pushes.answer([push(several, 1), push(alone, 7), push(several, 2)], None)
    assert [slot for slot, _ in several.answers] == [1, 2]
    assert (several.flushed, alone.flushed) == (1, 0)


def test_a_quota_callback_that_raises_on_a_push_keeps_no_other_from_its_answer() -> None:
    pushes, _ = handler(timed=True)
    channels = [Channel(waits=True) for _ in range(3)]
    batch = [push(channel, 1) for channel in channels]
    for each in batch:
        each.is_timed = True
        each.instance = SimpleNamespace(context=SimpleNamespace(client_id="app"))  # type: ignore[assignment]
    with capture_logs() as logs:
        pushes.answer(batch, None)
    assert [(len(channel.answers), channel.flushed) for channel in channels] == [(1, 1)] * 3
    assert len(logs) == 3

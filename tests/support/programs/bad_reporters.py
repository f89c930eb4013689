"""Reporters of one's own that misbehave, for `metric.reporters` of a node whose PYTHONPATH has the tests' folder."""

import asyncio
import os
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

BLOCKS_WHILE = "BAD_REPORTERS_BLOCK_WHILE"
"""The variable that names the file: while that exists, `Blocking` does not return."""


class Base:
    def configure(self, configs: Any) -> None: ...
    def context_change(self, context: Any) -> None: ...
    def init(self, metrics: Any) -> None: ...
    def metric_change(self, metric: Any) -> None: ...
    def metric_removal(self, metric: Any) -> None: ...
    def close(self) -> None: ...
    def client_receiver(self) -> "Base":
        return self


class Raising(Base):
    def export_metrics(self, context: Any, payload: Any) -> None:
        raise RuntimeError("always")


class Hanging(Base):
    def export_metrics(self, context: Any, payload: Any) -> Awaitable[None]:
        return self._hang()

    async def _hang(self) -> None:
        await asyncio.Event().wait()


class Blocking(Base):
    def export_metrics(self, context: Any, payload: Any) -> None:
        file = Path(os.environ[BLOCKS_WHILE])
        while file.exists():
            time.sleep(0.01)

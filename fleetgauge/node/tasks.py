"""Tasks of a process's loop."""

import asyncio
from contextlib import suppress


async def end_task(task: "asyncio.Task[None] | None") -> None:
    """Cancels a task and waits for its end; does nothing if it was not started."""
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

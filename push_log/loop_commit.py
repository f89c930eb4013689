"""Group commit on the listener's loop: one for all pushes of a loop iteration (`push.log.flush = os`).

A commit of five rows takes 20 us; a thread was not faster (docs/decisions/001-commit-on-the-loop.md).
"""

from push_log.group_commit import GroupCommit
from push_log.log import PushLogError
from telemetry.push import Push


class LoopCommit(GroupCommit):
    """`PushAppender` that commits after the frames of a loop iteration. A full batch is written at once."""

    def append(self, push: Push) -> PushLogError | None:
        """See `PushAppender.append`."""
        if self._closed:
            return PushLogError("the push log is closed")
        size_bytes = len(push.metrics) + len(push.encoded)
        waiting = len(self._gathering)
        if waiting and (
            waiting >= self._max_pending_records or self._pending_bytes + size_bytes > self._max_pending_bytes
        ):
            self._commit()
        if not self._gathering:
            self._loop.call_soon(self._commit)
        self._gathering.append(push)
        self._pending_bytes += size_bytes
        return None

    def _commit(self) -> None:
        pushes = self._gathering
        if not pushes:
            return
        self._gathering = []
        self._pending_bytes = 0
        error = self._write(pushes)
        self._note_outcome(len(pushes), error)
        self._tell(pushes, error)
        self._wake_drained()

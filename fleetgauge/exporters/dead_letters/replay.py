"""Delivers dead letters again when an operator requests it, through the exporter's own pipeline, between batches.

A letter is deleted when its push was delivered. One that is rejected again stays, with the destination's new answer;
one that the destination cannot accept now stays requested.
"""

from collections.abc import Callable
from typing import Final

from fleetgauge.exporters.dead_letters.letter import DeadLetter
from fleetgauge.exporters.dead_letters.store import DeadLetters
from fleetgauge.exporters.exporter import Exporter, Outcome, Retry, halves, refusals
from fleetgauge.push_log.log import Batch

_POSITION: Final = "dead-{:020d}"
"""Position of a dead letter, in place of one in the log. No log has such positions, and they sort in the order of dead
letters.
"""


class Replay:
    """The replays of one exporter; for its pipeline's thread.

    Args:
        exporter: the destination.
        letters: the store.
        on_delivered: called with the number of letters that were delivered and deleted.
        call: exports a batch by `exporter`.
    """

    def __init__(
        self,
        exporter: Exporter,
        letters: DeadLetters,
        on_delivered: Callable[[int], None],
        call: Callable[[Batch], Outcome],
    ) -> None:
        self._exporter = exporter
        self._letters = letters
        self._on_delivered = on_delivered
        self._call = call

    def deliver_batch(self) -> bool | Retry:
        """Exports one batch of requested letters, halved where needed; True if there may be more, `Retry` ends it.

        Raises:
            PushLogError: the store cannot be used now; what was delivered may be delivered again.
        """
        limits = self._exporter.batch
        taken = self._letters.replayable(self._exporter.name, limits.max_bytes, limits.max_records)
        by_push_id = {letter.record.push_id: letter for letter in taken}
        parts = [_batch(taken)] if taken else []
        while parts:
            part = parts.pop()
            outcome = self._call(part)
            if isinstance(outcome, Retry):
                left = [by_push_id[record.push_id] for each in (part, *parts) for record in each.records]
                self._letters.put_off(left, self._exporter.retry.backoff_max_ms)
                return outcome
            refused = refusals(part, outcome)
            if refused is None:
                parts.extend(reversed(halves(part)))
                continue
            if refused:
                self._letters.put(self._exporter.name, refused)
            refused_ids = {refusal.record.push_id for refusal in refused}
            delivered = [record.push_id for record in part.records if record.push_id not in refused_ids]
            self._on_delivered(self._letters.delivered(self._exporter.name, delivered))
        return bool(taken)


def _batch(letters: tuple[DeadLetter, ...]) -> Batch:
    records = tuple(letter.record for letter in letters)
    return Batch(
        exporter=letters[0].exporter,
        records=records,
        first_position=_POSITION.format(letters[0].id),
        last_position=_POSITION.format(letters[-1].id),
        size_bytes=sum(len(record.metrics) for record in records),
    )

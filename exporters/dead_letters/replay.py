"""Delivers dead letters again, once an operator has asked for it: through the exporter's own pipeline, between batches.

A letter goes when its push was delivered. One that is refused again stays, with what the destination says now; one that
the destination cannot take now stays asked for.
"""

from typing import Final

from exporters.dead_letters.letter import DeadLetter
from exporters.dead_letters.store import DeadLetters
from exporters.delivery.outcome import Delivered, Exporter, Outcome, Retry, halves, outcome_of, refusals
from push_log.log import Batch

_POSITION: Final = "dead-{:020d}"
"""Of a letter, in place of a position of the log; no log has positions like it, and it sorts as the letters do."""


class Replay:
    """The replays of one exporter; for its pipeline's thread.

    Args:
        exporter: the destination.
        letters: the table.

    Attributes:
        delivered: how many letters went with the last `deliver`.
        more: there may be more to replay.
    """

    def __init__(self, exporter: Exporter, letters: DeadLetters) -> None:
        self._exporter = exporter
        self._letters = letters
        self._taken: dict[str, DeadLetter] = {}
        self.delivered = 0
        self.more = False

    def take(self) -> Outcome:
        """Takes the next letters, as many as make a batch.

        Raises:
            PushLogError: the table cannot be used now.
        """
        self.delivered, self.more, self._taken = 0, False, {}
        limits = self._exporter.batch
        taken = self._letters.replayable(self._exporter.name, limits.max_bytes, limits.max_records)
        self._taken = {letter.record.push_id: letter for letter in taken}
        return Delivered()

    def deliver(self) -> Outcome:
        """Exports what was taken, in parts where the destination will not have it whole; `Retry` ends it early.

        Raises:
            PushLogError: the table cannot be used now; what was delivered may be delivered again.
        """
        parts = [_batch(tuple(self._taken.values()))] if self._taken else []
        while parts:
            part = parts.pop()
            outcome = outcome_of(self._exporter, part)
            if isinstance(outcome, Retry):
                left = [record.push_id for each in (part, *parts) for record in each.records]
                self._letters.put_off([self._taken[push_id] for push_id in left], self._exporter.retry.backoff_max_ms)
                return outcome
            refused = refusals(part, outcome)
            if refused is None:
                parts.extend(reversed(halves(part)))
                continue
            if refused:
                self._letters.put(self._exporter.name, refused)
            again = {refusal.record.push_id for refusal in refused}
            gone = [record.push_id for record in part.records if record.push_id not in again]
            self.delivered += self._letters.delivered(self._exporter.name, gone)
        self.more = bool(self._taken)
        return Delivered()


def _batch(letters: tuple[DeadLetter, ...]) -> Batch:
    records = tuple(letter.record for letter in letters)
    return Batch(
        exporter=letters[0].exporter,
        records=records,
        first_position=_POSITION.format(letters[0].id),
        last_position=_POSITION.format(letters[-1].id),
        size_bytes=sum(len(record.metrics) for record in records),
    )

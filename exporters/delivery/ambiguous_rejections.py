"""Whose fault it is where a destination's refusal does not say: the push's, or its own.

OTLP gives its INTERNAL and HTTP's 500 no word for that. A receiver whose backend is out of order may answer so to
everything, and would have a whole backlog put among the dead letters. One that takes another push of the same batch, or
says something else of it, is well: then it is the push.
"""

from exporters.delivery.outcome import Delivered, Refusal, Refused, Retry, TooLarge


class Suspicion:
    """The refusals of one batch.

    Args:
        of_pushes: the pushes are at fault from the first one on, for the destination has had its time.
    """

    def __init__(self, *, of_pushes: bool = False) -> None:
        self._of_pushes = of_pushes
        self._held: tuple[Refusal, ...] = ()

    def certain(self, outcome: Delivered | TooLarge | Refused, refused: tuple[Refusal, ...]) -> tuple[Refusal, ...]:
        """The refusals that are the pushes' own fault by now, after what the destination said of a part."""
        self._held += refused
        if not self._of_pushes and isinstance(outcome, Refused) and outcome.in_doubt:
            return ()
        self._of_pushes = True
        certain, self._held = self._held, ()
        return certain

    def rest(self) -> Retry | tuple[Refusal, ...]:
        """At the batch's end: `Retry` where it was all refused in doubt; one push alone has nothing to compare with."""
        if len(self._held) < 2:
            return self._held
        first = self._held[0]
        return Retry(
            reason=first.reason, detail=f"every one of {len(self._held)} pushes is refused by itself: {first.detail}"
        )

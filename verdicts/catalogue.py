"""Every verdict that telemetry alone can give, in the order of what explains what."""

from typing import Final

from verdicts.declare import Verdict
from verdicts.families import consumers, latency

VERDICTS: Final[tuple[Verdict, ...]] = (*latency.VERDICTS, *consumers.VERDICTS)

BY_ID: Final = {verdict.id: verdict for verdict in VERDICTS}

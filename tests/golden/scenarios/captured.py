"""What real clients sent, chunk by chunk and at the times at which they sent it (`capture.py`)."""

import json
from pathlib import Path

from golden.scenarios.scenario import scenario
from golden.session import Session

CAPTURES = Path(__file__).parents[1] / "captures"
EVERY_HALF_SECOND = '[client-metrics.all]\nmetrics = "*"\n"interval.ms" = 500\n'


def _register(path: Path) -> None:
    def play(session: Session) -> None:
        at_ms = 0
        for event in json.loads(path.read_text()):
            if event["at_ms"] > at_ms:
                session.advance(event["at_ms"] - at_ms)
                at_ms = event["at_ms"]
            name = event["connection"]
            if "connect" in event:
                session.connect(name)
            elif "end" in event:
                session.do("end_input", of=name)
            else:
                session.do("send", to=name, data=event["data"])

    play.__name__ = f"captured_{path.stem}"
    play.__doc__ = f"Everything that clients of {path.stem.replace('_', ' ', 1).replace('_', '.')} sent, to their ends."
    scenario(EVERY_HALF_SECOND)(play)


for _path in sorted(CAPTURES.glob("*.json")):
    _register(_path)

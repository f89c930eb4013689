"""What `fleet whatif` predicts of Java producers, beside what a real broker with that quota does to the same load."""

import shutil
from pathlib import Path

import pytest
from support.quotas.quota_pipeline import compare

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(1200),  # a machine gets Kafka and builds the plugin once
    pytest.mark.skipif(shutil.which("mvn") is None, reason="Maven is needed to get Apache Kafka and build the plugin"),
]

LIMIT = 200_000
RATES = {"well-under": 100_000, "just-above": 240_000, "far-above": 600_000}
"""What producers are given [bytes/s]; with requests of a few records their overhead comes on top of it."""


@pytest.mark.parametrize("seconds", [20, pytest.param(60, marks=pytest.mark.soak)])
def test_the_predicted_share_of_time_is_the_one_that_a_broker_holds(tmp_path: Path, seconds: int) -> None:
    # A busy machine makes another load of the second one, of fewer and larger requests.
    assert any(agrees(tmp_path / str(attempt), seconds) for attempt in range(3))


def agrees(directory: Path, seconds: int) -> bool:
    """True if the load was one of these rates, and the predicted shares of time are those of the broker."""
    directory.mkdir()
    found = compare(directory, "4.3.1", LIMIT, RATES, seconds)
    apart, well_limited = [], True
    for client_id, real in found.real.items():
        row = found.predicted[client_id]
        # Of the time of the load: telemetry begins before it and ends after it.
        share = min(row["throttled_s"] / seconds, 1.0)
        print(f"{client_id}: predicted {share:.2f}, {row['mean_delay_ms']} ms, peak {row['peak_ratio']:.2f}; {real}")
        well_limited &= row["throttled"] == (RATES[client_id] > LIMIT)
        # On a quiet machine they differ by 0.01; a client that gets no processor time sends its next request later.
        apart.append(abs(share - real.share) - real.late)
    well_limited &= found.real["well-under"].share == 0
    well_limited &= found.real["far-above"].share > found.real["just-above"].share > 0.1
    return well_limited and max(apart) < 0.1

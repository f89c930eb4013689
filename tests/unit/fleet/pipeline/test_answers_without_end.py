"""Answers that have no end, of tables in S3 and of Prometheus: each costs one deadline."""

from datetime import UTC, datetime

import pytest
from support.proxies.trickling import BODY, HEAD, trickling
from support.waiting import wait_for

from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.fleet.whatif.samples import RatesError, read_prometheus

EPOCH = datetime.fromtimestamp(0, UTC)
IN_S3 = {"aws_access_key_id": "me", "aws_secret_access_key": "secret", "aws_region": "r"}


@pytest.mark.slow
def test_a_request_for_tables_in_s3_whose_answer_has_no_end_is_given_up() -> None:
    with trickling(BODY) as server:
        soon = {"timeout": "1s", "max_retries": "0", "aws_allow_http": "true"}
        store = Store("s3://lake/tables", {**IN_S3, **soon, "aws_endpoint": f"http://{server.address}"})
        with pytest.raises(OSError, match="operation timed out"):
            store.rows(catalog.VERDICTS)


def test_a_query_of_prometheus_whose_answer_has_no_end_is_given_up() -> None:
    with trickling(HEAD) as server:
        with pytest.raises(RatesError, match=r"--prometheus: no response: no whole answer within 0\.5 s"):
            read_prometheus(f"http://{server.address}", "x", EPOCH, EPOCH, 15, within_s=0.5)
        wait_for(lambda: server.ended, "the end of the connection")

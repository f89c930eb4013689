"""Answers that have no end, of tables in S3 and of Prometheus: each costs one deadline."""

import pytest
from support.proxies.trickling import BODY, HEAD, trickling
from support.waiting import wait_for
from typer.testing import CliRunner

from fleetgauge.cli.fleet.app import app
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store

IN_S3 = {"aws_access_key_id": "me", "aws_secret_access_key": "secret", "aws_region": "r"}


@pytest.mark.slow
def test_a_request_for_tables_in_s3_whose_answer_has_no_end_is_given_up() -> None:
    with trickling(BODY) as server:
        soon = {"timeout": "1s", "max_retries": "0", "aws_allow_http": "true"}
        store = Store("s3://lake/tables", {**IN_S3, **soon, "aws_endpoint": f"http://{server.address}"})
        with pytest.raises(OSError, match="operation timed out"):
            store.rows(catalog.VERDICTS)


def test_a_query_of_prometheus_whose_answer_has_no_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleetgauge.fleet.whatif.samples._WITHIN_S", 0.5)
    with trickling(HEAD) as server:
        query = ("--prometheus", f"http://{server.address}", "--query", "x", "--quota", "user=a,producer_byte_rate=1")
        result = CliRunner().invoke(app, ["whatif", *query])
        assert "--prometheus: no answer: no whole answer within 0.5 s" in result.stderr
        wait_for(lambda: server.ended, "the end of the connection")

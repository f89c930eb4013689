"""Which engine computes: this process, or Spark."""

import pytest

from fleetgauge.cli.fleet.options import SparkJob
from fleetgauge.fleet.engines import choice
from fleetgauge.fleet.engines.choice import EngineName, Kind, Work, choose
from fleetgauge.fleet.errors import WrongOptionError

PROCESS, SPARK = EngineName


@pytest.mark.parametrize("kind", Kind)
def test_the_process_does_what_is_not_large(kind: Kind) -> None:
    assert choose(Work(kind=kind, amount=kind.value), None) is PROCESS
    assert choose(Work(kind=kind, amount=kind.value + 1), None) is SPARK


def test_without_pyspark_the_process_does_what_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "find_spec", lambda name: None)
    assert choose(Work(kind=Kind.TABLES, amount=2**60), None) is PROCESS


def test_an_engine_that_is_asked_for_is_taken_whatever_the_size() -> None:
    assert choose(Work(kind=Kind.TABLES, amount=2**60), PROCESS) is PROCESS
    assert choose(Work(kind=Kind.TABLES), SPARK) is SPARK


def test_what_the_process_cannot_read_is_sparks_alone() -> None:
    topic = Work(kind=Kind.QUESTION, out_of_reach="kafka://broker:9092/pushes")
    assert {choose(topic, asked) for asked in (None, SPARK)} == {SPARK}
    with pytest.raises(WrongOptionError, match="--engine process cannot read kafka://broker:9092/pushes"):
        choose(topic, PROCESS)


def test_an_option_of_spark_asks_for_spark_and_contradicts_the_process() -> None:
    assert SparkJob().asked is None
    assert SparkJob(engine=PROCESS).asked is PROCESS
    assert SparkJob(py_files="code.zip").asked is SparkJob(engine=SPARK).asked is SPARK
    with pytest.raises(WrongOptionError, match="--master is an option of Spark"):
        _ = SparkJob(engine=PROCESS, master="yarn").asked

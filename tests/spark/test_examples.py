"""The examples in the docstrings of silver and gold, run in the tests' session."""

import doctest
import importlib
import pkgutil

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import fleet.gold
import fleet.silver
from fleet import schemas
from fleet.measures.aggregate import aggregate
from fleet.small_tables import rows, show, table

MODULES = sorted(
    module.name
    for package in (fleet.gold, fleet.silver)
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
)


SCHEMAS = {name: value for name, value in vars(schemas).items() if isinstance(value, pa.Schema)}


def examples(module: str, spark: SparkSession) -> list[doctest.DocTest]:
    names = {"spark": spark, "table": table, "rows": rows, "aggregate": aggregate, "show": show, **SCHEMAS}
    found = importlib.import_module(module)
    return [each for each in doctest.DocTestFinder().find(found, extraglobs=names) if each.examples]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_come_true(module: str, spark: SparkSession) -> None:
    said: list[str] = []
    runner = doctest.DocTestRunner()
    for example in examples(module, spark):
        runner.run(example, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)


def test_every_table_of_silver_and_gold_has_an_example(spark: SparkSession) -> None:
    """A table that nobody shows is one that nobody understands."""
    shown = "".join(each.docstring or "" for module in MODULES for each in examples(module, spark))
    before_silver = {
        "BRONZE",
        "CHECKED",
        "COUNTED",
        "DECODED",
        "DISTRIBUTION",
        "FILES",
        "PACKED",
        "PUSH_RECORD",
        "SENDER",
        "SENT_POINTS",  # POINTS without what they are compared with
        "TOPIC_RECORDS",
    }
    tables = {name for name in SCHEMAS if not name.startswith("_")} - before_silver
    assert {name for name in tables if f"-> {name}" not in shown} == set()

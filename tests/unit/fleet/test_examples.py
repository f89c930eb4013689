"""The examples in the docstrings of silver and gold; those that need Spark run in its tests."""

import doctest
import importlib
import pkgutil

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fleetgauge.fleet.gold
import fleetgauge.fleet.silver
from fleetgauge.fleet import schemas
from fleetgauge.fleet.engines.sql import answer
from fleetgauge.fleet.measures.aggregate import aggregate
from fleetgauge.fleet.silver.clients import seen
from fleetgauge.testkit.small_tables import rows, show

MODULES = sorted(
    module.name
    for package in (fleetgauge.fleet.gold, fleetgauge.fleet.silver)
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
)
SCHEMAS = {name: value for name, value in vars(schemas).items() if isinstance(value, pa.Schema)}


def examples(module: str) -> list[doctest.DocTest]:
    names = {"rows": rows, "aggregate": aggregate, "seen": seen, "answer": answer, "show": show, "pc": pc, **SCHEMAS}
    found = doctest.DocTestFinder().find(importlib.import_module(module), extraglobs=names)
    return [each for each in found if each.examples and "spark" not in (each.docstring or "")]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_come_true(module: str) -> None:
    said: list[str] = []
    runner = doctest.DocTestRunner()
    for example in examples(module):
        runner.run(example, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)


def test_every_table_of_gold_has_an_example() -> None:
    """A table that nobody shows is one that nobody understands."""
    shown = "".join(each.docstring or "" for module in MODULES for each in examples(module))
    wanted = {"ACTIVITY", "CLIENTS", "CONSUMERS", "GROUPS", "INVENTORY", "LATENCY", "LATENCY_OVERALL", "METRICS"}
    wanted |= {"PRODUCERS", "REBALANCES", "THROTTLING", "VERSIONS"}
    assert {name for name in wanted if f"-> {name}" not in shown} == set()

"""The tests of docs/reference/conformance.md are worth something: breaking a rule of the code makes its test fail.

Each case changes one line in a copy of the project and runs the tests that stand beside the rule; they have to fail. A
line that is not found any more fails its case, too, so that the list keeps up with the code.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from support.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
LADDER = "tests/unit/telemetry/test_push_ladder.py"
GETS = "tests/unit/telemetry/test_get_subscriptions.py"
LIFE = "tests/unit/telemetry/test_instance_life.py"
CONFIG = "tests/unit/telemetry/test_subscription_config.py"
CODECS = "tests/unit/telemetry/test_codec_traps.py"
PLUGINS = "tests/unit/telemetry/test_exporter_plugin.py"
LABELS = "tests/unit/exporters/test_labels.py"
GATE = "tests/property/telemetry/test_gate_model.py"
BOUNDS = "tests/unit/telemetry/test_sender_bounds.py"
CONNECTIONS = "tests/unit/quotas/test_connection_quotas.py"


class Mutation(NamedTuple):
    """A rule, the line that keeps it, what breaks it, and the tests that must notice."""

    rule: str
    file: str
    line: str
    broken: str
    tests: str


MUTATIONS = [
    Mutation(
        "a push has an id",
        "fleetgauge/telemetry/manager.py",
        "if instance_id is None or instance_id.int <= LAST_RESERVED_ID:",
        "if instance_id is None:",
        LADDER,
    ),
    Mutation(
        "terminating is the last",
        "fleetgauge/telemetry/manager.py",
        "if gate.times.is_terminated:",
        "if False:",
        LADDER,
    ),
    Mutation(
        "a push keeps its interval",
        "fleetgauge/telemetry/manager.py",
        "if not is_due and not (terminating and gate.may_end_early(interval_ms, now_ms)):",
        "if False:",
        LADDER,
    ),
    Mutation(
        "a terminating push need not wait",
        "fleetgauge/telemetry/manager.py",
        "if not is_due and not (terminating and gate.may_end_early(interval_ms, now_ms)):",
        "if not is_due:",
        LADDER,
    ),
    Mutation(
        "a refused terminating push does not count",
        "fleetgauge/telemetry/manager.py",
        "            instance.gate.claim(now_ms, is_due=is_due)",
        "            instance.gate.claim(now_ms, is_due=is_due, terminating=True)",
        LADDER,
    ),
    Mutation(
        "a push after a Get is due",
        "fleetgauge/telemetry/instances/gate.py",
        "        if self._get_unconsumed:\n            return True\n        last_push_ms",
        "        last_push_ms",
        GATE,
    ),
    Mutation(
        "a Get keeps its interval",
        "fleetgauge/telemetry/manager.py",
        "if not gate.may_get(",
        "if False and not gate.may_get(",
        GETS,
    ),
    Mutation(
        "a Get keeps its distance from the last push",
        "fleetgauge/telemetry/instances/gate.py",
        "_has_passed(last_get_ms, push_interval_ms, now_ms) and _has_passed(\n"
        "            last_push_ms, push_interval_ms, now_ms\n        )",
        "_has_passed(last_get_ms, push_interval_ms, now_ms)",
        GETS,
    ),
    Mutation(
        "a Get cures an unknown subscription",
        "fleetgauge/telemetry/instances/gate.py",
        "frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})",
        "frozenset({ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})",
        GETS,
    ),
    Mutation(
        "a Get cures an unsupported codec",
        "fleetgauge/telemetry/instances/gate.py",
        "frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})",
        "frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID})",
        GETS,
    ),
    Mutation(
        "the subscription id has to be the client's",
        "fleetgauge/telemetry/manager.py",
        "if subscription_id != instance.subscription_id:",
        "if False:",
        LADDER,
    ),
    Mutation(
        "a codec has to be configured",
        "fleetgauge/telemetry/manager.py",
        "codec = self._codecs.get(compression_type)",
        "codec = self._codecs.get(compression_type, self._codecs[0])",
        LADDER,
    ),
    Mutation(
        "exactly telemetry.max.bytes are taken",
        "fleetgauge/telemetry/manager.py",
        "if len(encoded) > self._settings.telemetry_max_bytes:",
        "if len(encoded) >= self._settings.telemetry_max_bytes:",
        LADDER,
    ),
    Mutation(
        "more than telemetry.max.bytes are refused",
        "fleetgauge/telemetry/manager.py",
        "if len(encoded) > self._settings.telemetry_max_bytes:",
        "if len(encoded) > 1 + self._settings.telemetry_max_bytes:",
        LADDER,
    ),
    Mutation(
        "decompressed too large is no invalid record",
        "fleetgauge/telemetry/manager.py",
        "return refused.TOO_LARGE_DECOMPRESSED",
        "return refused.BROKEN_COMPRESSION",
        LADDER,
    ),
    Mutation(
        "inflated payloads are refused",
        "fleetgauge/telemetry/manager.py",
        'return refused.INFLATED, b""',
        "pass",
        LADDER,
    ),
    Mutation(
        "a payload is validated", "fleetgauge/telemetry/manager.py", "validate_metrics(metrics)\n", "pass\n", LADDER
    ),
    Mutation(
        "a broken codec is an invalid record",
        "fleetgauge/telemetry/manager.py",
        "            return fault, metrics\n",
        "            return None, metrics\n",
        LADDER,
    ),
    Mutation(
        "an empty payload is a heartbeat",
        "fleetgauge/telemetry/manager.py",
        '        if not encoded:\n            return None, b""\n',
        "        if not encoded:\n            return TOO_LARGE, b''\n",
        LADDER,
    ),
    Mutation(
        "a zstd frame is bounded whatever it states",
        "fleetgauge/telemetry/codecs/zstd.py",
        "            if room < 0:",
        "            if False:",
        CODECS,
    ),
    Mutation(
        "a failed log costs the client nothing",
        "fleetgauge/telemetry/manager.py",
        "                instance.gate.give_back(claim)\n",
        "                pass\n",
        LADDER,
    ),
    Mutation(
        "an edit leaves those alone whom it does not concern",
        "fleetgauge/telemetry/instances/instance.py",
        "        if subscription == self.subscription:",
        "        if False:",
        GETS,
    ),
    Mutation(
        "a change opens the gate of those whom it concerns",
        "fleetgauge/telemetry/instances/instance.py",
        "        self.gate.reopen()\n",
        "",
        GETS,
    ),
    Mutation(
        "intervals above five minutes hold",
        "fleetgauge/telemetry/subscriptions/resources.py",
        "return self._share(_union(each.metrics for each in matching), interval_ms, names)",
        "return self._share(_union(each.metrics for each in matching), min(interval_ms, 300_000), names)",
        GETS,
    ),
    Mutation(
        "one star asks for everything",
        "fleetgauge/telemetry/subscriptions/resources.py",
        "return (ALL_METRICS,) if ALL_METRICS in prefixes else tuple(sorted(prefixes))",
        "return tuple(sorted(prefixes))",
        CONFIG,
    ),
    Mutation(
        "a selector has to match the whole value",
        "fleetgauge/telemetry/subscriptions/match.py",
        "self.pattern.fullmatch(form)",
        "self.pattern.search(form)",
        CONFIG,
    ),
    Mutation(
        "an id belongs to its sender",
        "fleetgauge/telemetry/instances/cache.py",
        "if instance is None or (instance.context is not context and not instance.is_of(context)):",
        "if instance is None:",
        LADDER,
    ),
    Mutation(
        "a thief's terminating push ends no other connection",
        "fleetgauge/telemetry/instances/gate.py",
        "        return self.times.is_terminated",
        "        return any(seat.is_terminated for seat in self._seats)",
        GATE,
    ),
    Mutation(
        "an instance has one unthrottled terminating push in an interval",
        "fleetgauge/telemetry/instances/gate.py",
        "        return _has_passed(self._ended_ms, push_interval_ms, now_ms)",
        "        return True",
        GATE,
    ),
    Mutation(
        "a thief's terminating push ends none of the connections that share their times",
        "fleetgauge/telemetry/instances/gate.py",
        "            times.is_terminated = times is not self._shared",
        "            times.is_terminated = True",
        GATE,
    ),
    Mutation(
        "an early last push and the Get that cures its error open no gate",
        "fleetgauge/telemetry/instances/gate.py",
        "        if self._cure_opens or self.last_known_error not in _RECOVERING:",
        "        if True:",
        GATE,
    ),
    Mutation(
        "a thief's haste costs no other connection its turn",
        "fleetgauge/telemetry/instances/gate.py",
        "        last_push_ms = self.times.last_push_ms\n        if last_push_ms is None:\n"
        "            last_push_ms = self._latest_push_ms\n        return",
        "        last_push_ms = self._latest_push_ms\n        return",
        GATE,
    ),
    Mutation(
        "an address has no end of new instances",
        "fleetgauge/telemetry/instances/sender_bounds.py",
        "        if not all(each.instances.has_token(now_ms) for each in allowances):",
        "        if False:",
        BOUNDS,
    ),
    Mutation(
        "half of the bytes is kept for those that keep to their interval",
        "fleetgauge/telemetry/instances/sender_bounds.py",
        "_KEPT_FOR_INTERVALS: Final = 0.5",
        "_KEPT_FOR_INTERVALS: Final = 0.0",
        BOUNDS,
    ),
    Mutation(
        "a silent instance is kept for a minute",
        "fleetgauge/base/presence.py",
        "max(ABSENT_AT_LEAST_MS, ABSENT_INTERVALS * push_interval_ms)",
        "ABSENT_INTERVALS * push_interval_ms",
        LIFE,
    ),
    Mutation(
        "eviction leaves nothing behind",
        "fleetgauge/telemetry/instances/cache.py",
        "            self._detach(instance, connection_id)\n        instance.connection_id",
        "            pass\n        instance.connection_id",
        LIFE,
    ),
    Mutation(
        "eviction warns at most once in five minutes",
        "fleetgauge/telemetry/instances/cache.py",
        'self._limiter.admit("eviction", now_ms)',
        "True",
        LIFE,
    ),
    Mutation(
        "the end of one connection leaves a client with another alone",
        "fleetgauge/telemetry/instances/cache.py",
        "            if not instance.gate.leave(connection_id):\n                self._remove(instance)",
        "            if instance.gate.leave(connection_id) is not None:\n                self._remove(instance)",
        LIFE,
    ),
    Mutation(
        "a receiver's fault reaches nobody",
        "fleetgauge/telemetry/plugin/exporter_plugin.py",
        "            except Exception as error:  # noqa: BLE001 - a receiver's fault",
        "            except KeyError as error:  # a receiver's fault",
        PLUGINS,
    ),
    Mutation(
        "the broker's labels win",
        "fleetgauge/exporters/labels.py",
        "return _Labels(encoded, self._names)",
        "return _Labels(encoded, frozenset())",
        LABELS,
    ),
    Mutation(
        "a connection that is refused for its address leaves no trace in its rate",
        "fleetgauge/quotas/connections/connection_quotas.py",
        "        self._rates.unrecord(sensor, now_ms)\n",
        "",
        CONNECTIONS,
    ),
    Mutation(
        "a connection that is out of the windows is not taken back out of them",
        "fleetgauge/quotas/connections/connection_quotas.py",
        "if now_ms - connection._arrived_ms < self._rates.span_ms:",
        "if True:",
        CONNECTIONS,
    ),
    Mutation(
        "the inter-broker listener is spared by the limits of the broker",
        "fleetgauge/quotas/connections/connection_quotas.py",
        "return self._is_protected(listener) or self._total < self._broker_max",
        "return self._total < self._broker_max",
        CONNECTIONS,
    ),
    Mutation(
        "a connection is given back once",
        "fleetgauge/quotas/connections/connection_quotas.py",
        "            if not connection.is_counted:\n                return\n",
        "",
        CONNECTIONS,
    ),
    Mutation(
        "a throttled replica's sensor begins with the quota in force",
        "fleetgauge/quotas/replication.py",
        "sensor.add(self._rate_metric_name, SimpleRate(), self._metric_config())",
        "sensor.add(self._rate_metric_name, SimpleRate())",
        "tests/unit/quotas/test_replication.py",
    ),
]


def test_every_mutation_breaks_one_line_that_is_there() -> None:
    found = {each.rule: (ROOT / each.file).read_text().count(each.line) for each in MUTATIONS}
    assert {rule: count for rule, count in found.items() if count != 1} == {}


@pytest.mark.soak
@pytest.mark.parametrize("mutation", MUTATIONS, ids=[mutation.rule.replace(" ", "-") for mutation in MUTATIONS])
def test_breaking_a_rule_makes_its_test_fail(mutation: Mutation, tmp_path: Path) -> None:
    for name in ("fleetgauge", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "integration"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    file = tmp_path / mutation.file
    text = file.read_text()
    file.write_text(text.replace(mutation.line, mutation.broken))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", mutation.tests]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=4 * PATIENCE_S, check=False)
    assert done.returncode == 1, f"nobody noticed: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    assert "failed" in done.stdout, done.stdout[-2000:]

"""An operator's own rules in a TOML file: what they mean, and what is said of those that mean nothing."""

from pathlib import Path

import pytest

from fleetgauge.telemetry.catalogue.standard_metrics import known_metrics
from fleetgauge.verdicts.errors import RulesError
from fleetgauge.verdicts.rules import as_toml, default_rules, load_rules, parse_rules
from fleetgauge.verdicts.user_rules import MAX_RULES, Increase, Limit, UserRule

EXAMPLES = Path(__file__).parents[3] / "examples"
LATENCY = "org.apache.kafka.producer.node.request.latency.max"
SLOW = f'metric = "{LATENCY}"\nabove = 5000\n'


def one(body: str) -> UserRule:
    (rule,) = parse_rules(f"[rules.r]\n{body}", "rules.toml").own
    return rule


def refused(body: str) -> str:
    with pytest.raises(RulesError) as caught:
        one(body)
    return str(caught.value)


def test_a_rule_of_each_kind_is_read() -> None:
    assert one(SLOW + 'for = "180s"').condition == Limit(
        metrics=(LATENCY,), bound=5000, is_upper=True, for_us=180_000_000
    )
    assert one('custom_metric = ["a", "b"]\nbelow = 0.5').condition == Limit(
        metrics=("a", "b"), bound=0.5, is_upper=False, for_us=0
    )
    assert one('custom_metric = "a"\nincrease_above = 5\nwithin = "10m"').condition == Increase(
        metrics=("a",), bound=5, within_us=600_000_000
    )


def test_the_example_is_read_and_names_metrics_that_clients_send_among_them_those_of_kip_714() -> None:
    rules = load_rules(EXAMPLES / "watch_rules.toml")
    assert rules.metric_names <= {metric.name for metric in known_metrics()}
    slow = next(rule for rule in rules.own if "slow" in rule.name)
    assert isinstance(slow.condition, Limit)
    assert (slow.condition.bound, slow.condition.for_us) == (5_000, 180_000_000)
    assert rules["silent"].patterns("stays") == ("checkout-.*",)


def test_the_quick_example_has_all_durations_of_the_defaults_divided_by_thirty_and_nothing_else() -> None:
    quick = load_rules(EXAMPLES / "quick_rules.toml")
    for verdict, figures in default_rules().values.items():
        for name, value in figures.items():
            is_duration = name.endswith("_s") and not name.endswith("per_s") and name != "least_lag_s"
            expected = value / 30 if is_duration or name == "max_poll_interval_ms" else value
            assert quick.values[verdict][name] == expected, f"[{verdict}] {name}"


def test_rules_of_ones_own_stand_beside_figures_and_are_written_as_they_were_read() -> None:
    text = f'[slow-node]\nfactor = 3\n[rules."a.b"]\n{SLOW}match = {{ client_id = "a.*" }}\n'
    rules = parse_rules(text)
    assert (rules["slow-node"]["factor"], rules["a.b"].severity, rules["a.b"]["for_s"]) == (3.0, "warning", 0.0)
    assert parse_rules(as_toml(rules)) == rules
    assert rules.digest != parse_rules(text.replace("5000", "5001")).digest
    assert default_rules().own == ()


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("", "rules.toml: rules.r has no condition: give one of above, below, increase_above"),
        (SLOW + "below = 1", "rules.r has several conditions: give one of"),
        ("above = 1", "rules.r has above and no metric: give both"),
        ('custom_metric = "a"\nincrease_above = 1', "rules.r has increase_above and no within: give both"),
        (SLOW + 'within = "10m"', "rules.r.within means nothing beside above: leave it out"),
        (SLOW + "bove = 1", "rules.r.bove is not known: give metric, custom_metric, above, below, for"),
        ('custom_metric = "a"\nabove = "5000"', "rules.r.above is '5000': give a number, such as 5000"),
        ('custom_metric = "a"\nabove = true', "rules.r.above is True: give a number, such as 5000"),
        ('custom_metric = "a"\nabove = nan', "rules.r.above is nan: give a number, such as 5000"),
        (SLOW + "for = 180", 'rules.r.for is 180: give a duration up to 30d, such as "180s", "5m" or "1h"'),
        (SLOW + 'for = "31d"', 'rules.r.for is \'31d\': give a duration up to 30d, such as "180s", "5m" or "1h"'),
        (
            'custom_metric = "a"\nincrease_above = 1\nwithin = "0s"',
            "rules.r.within is '0s': give a duration above zero",
        ),
        ("silent_intervals = 3", "rules.r.silent_intervals is not known: silence is the verdict silent"),
        (SLOW + "stays = true", "rules.r.stays is not known: silence is the verdict silent, with the figures [silent]"),
        ("metric = []\nabove = 1", "rules.r.metric is []: give the full name of a metric, or a list of 20 at most"),
        (SLOW + 'severity = "bad"', "rules.r.severity is 'bad': give info, warning or critical"),
        (SLOW + 'text = "{clientid}"', "rules.r.text names {clientid}: give client_id, client_instance_id"),
        (SLOW + 'match = { clientid = "a" }', "rules.r.match.clientid is not known: give client_instance_id"),
        (SLOW + 'match = { client_id = "(" }', "rules.r.match.client_id is '(': give a regular expression that RE2"),
        (SLOW + "match = { client_id = 1 }", "rules.r.match.client_id is 1: give a regular expression that RE2"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_key_value_and_what_is_allowed(body: str, sentence: str) -> None:
    found = refused(body)
    assert sentence in found
    assert "\n" not in found


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[rules.r", "rules.toml: not TOML: "),
        (f"x = {'9' * 5_000}", "rules.toml: not TOML: "),
        (f"x = {'[' * 5_000}", "rules.toml: not TOML: "),
        (f"[slow-node]\nfactor = {'9' * 400}", "rules.toml: [slow-node] factor is a number of 0 or more"),
        ("[slow-node]\nshare = 50", "rules.toml: [slow-node] share is a number from 0 to 1, not 50"),
        ("rules = 1", "rules.toml: rules is not a table of at most 100 rules: give tables named [rules.NAME]"),
        ("[rule.r]\nabove = 1", "rules.toml: there is no verdict 'rule'"),
        ("[rule.r]\nabove = 1", "rules of your own are tables named [rules.NAME]"),
        (f"[rules.silent]\n{SLOW}", "rules.toml: rules.silent has the name of a verdict: write [silent], or name it"),
        ("[silent]\nstays = 'a'", "rules.toml: [silent] stays is 'a': give a list of regular expressions"),
        ("[silent]\nstays = ['(']", "rules.toml: [silent] stays is '(': give a regular expression that RE2 takes"),
        ('[rules."a b"]\nabove = 1', "rules.toml: rules.a b is not a rule: give a table named by letters, digits"),
        (
            "".join(f"[rules.r{n}]\n{SLOW}\n" for n in range(MAX_RULES + 1)),
            "rules is not a table of at most 100 rules",
        ),
    ],
)
def test_a_file_that_holds_no_such_rules_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(RulesError) as caught:
        parse_rules(text, "rules.toml")
    assert sentence in str(caught.value)


def test_rules_that_another_release_judged_by_are_read_as_far_as_they_are_known_here() -> None:
    kept = as_toml(parse_rules("[slow-node]\nfactor = 3")).replace("[slow-node]", "[slow-node]\nphase = 0.5")
    assert parse_rules(f"{kept}\n[slow-moon]\nfor_s = 1\n", of_any_release=True) == parse_rules(
        "[slow-node]\nfactor = 3"
    )


@pytest.mark.parametrize("said", ["\U0001f525 {client_id}", "a\\u007fb", 'a \\"quoted\\" \\\\ {client_id}\\n'])
def test_any_text_of_a_rule_is_written_as_it_was_read(said: str) -> None:
    rules = parse_rules(f'[rules.r]\n{SLOW}text = "{said}"\n')
    assert parse_rules(as_toml(rules)).own == rules.own


def test_a_mark_at_the_beginning_of_a_file_is_none_of_it(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text("[slow-node]\nfactor = 3\n", encoding="utf-8-sig")
    assert load_rules(tmp_path / "rules.toml")["slow-node"]["factor"] == 3


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match=r"cannot read the rules in .*nosuch\.toml: No such file or directory"):
        load_rules(tmp_path / "nosuch.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(RulesError, match="it is not UTF-8"):
        load_rules(tmp_path / "binary.toml")
    (tmp_path / "huge.toml").write_bytes(b"#" * (1024 * 1024 + 1))
    for endless in (tmp_path / "huge.toml", Path("/dev/zero")):
        with pytest.raises(RulesError, match="longer than"):
            load_rules(endless)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("org.apache.kafka.producer.node.request.latancy.max", LATENCY),
        ("producer-node-metrics.request-latency-max", LATENCY),
        ("org.apache.kafka.consumer.poll.idle.ratio", "org.apache.kafka.consumer.poll.idle.ratio.avg"),
        ("kafka.consumer.coordinator.rebalance.totals", "org.apache.kafka.consumer.coordinator.rebalance.total"),
    ],
)
def test_a_misspelt_metric_is_refused_with_the_nearest_names(written: str, meant: str) -> None:
    found = refused(f'metric = ["{LATENCY}", "{written}"]\nabove = 1')
    assert f"rules.r.metric is '{written}', which no known client sends: did you mean {meant}" in found
    assert "named under custom_metric" in found


def test_a_metric_that_resembles_no_known_one_is_refused_with_where_they_are_listed() -> None:
    assert "fleetgauge metrics lists the known ones" in refused('metric = "com.example.orders.open"\nabove = 1')
    assert len(refused(f'metric = "{"x" * 100_000}"\nabove = 1')) < 1_000


def test_a_metric_of_an_application_is_taken_where_it_is_marked_as_one() -> None:
    rule = one(f'metric = "{LATENCY}"\ncustom_metric = "org.apache.kafka.orders.open"\nabove = 1')
    assert rule.metrics == (LATENCY, "org.apache.kafka.orders.open")

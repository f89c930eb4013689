"""Versions and ranges of them against plain tuples, and against anything that a client may say."""

import contextlib
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetgauge.telemetry.catalogue.software_version import SoftwareVersion, parse_range, parse_version, version_of_part
from fleetgauge.telemetry.subscriptions.known_clients import SHIPPED

segments = st.lists(st.integers(0, 999), min_size=1, max_size=6)
COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq}


def padded(numbers: list[int]) -> list[int]:
    return [*numbers, *([0] * (8 - len(numbers)))]


def parsed(text: str) -> SoftwareVersion:
    version = parse_version(text)
    assert version is not None
    return version


def text_of(numbers: list[int]) -> str:
    return ".".join(map(str, numbers))


@given(version=segments, bound=segments, sign=st.sampled_from(sorted(COMPARE)))
def test_a_release_is_inside_a_bound_as_tuples_of_numbers_compare(
    version: list[int], bound: list[int], sign: str
) -> None:
    found = parsed(text_of(version))
    assert parse_range(f"{sign}{text_of(bound)}").contains(found) == COMPARE[sign](padded(version), padded(bound))


@given(low=segments, high=segments, version=segments)
def test_a_range_is_all_of_its_bounds(low: list[int], high: list[int], version: list[int]) -> None:
    inside = parse_range(f">={text_of(low)}, <{text_of(high)}").contains(parsed(f"v{text_of(version)}"))
    assert inside == (padded(low) <= padded(version) < padded(high))


@given(version=segments, suffix=st.sampled_from(["-ccs", "-cp1", "-rdkafka-9.9.9", "+build5", "-ruby-2.6.5", ""]))
def test_a_builds_suffix_changes_nothing(version: list[int], suffix: str) -> None:
    assert parse_version(text_of(version) + suffix) == parse_version(text_of(version))


@given(version=segments, suffix=st.sampled_from(["-RC1", "-SNAPSHOT", "rc2", "-beta.3", ".dev0", "-alpha"]))
def test_a_pre_release_counts_as_inside_at_both_ends_of_a_range(version: list[int], suffix: str) -> None:
    found = parsed(text_of(version) + suffix)
    assert parse_range(f">={text_of(version)}").contains(found)
    assert parse_range(f"<{text_of(version)}").contains(found)


@given(version=segments, zeros=st.integers(0, 2))
def test_zeros_at_the_end_change_nothing(version: list[int], zeros: int) -> None:
    assert parse_version(text_of(version) + ".0" * zeros) == parse_version(text_of(version))


@given(name=st.text(max_size=40), version=st.text(max_size=300))
def test_nothing_that_a_client_says_raises(name: str, version: str) -> None:
    parse_version(version)
    version_of_part(version, "rdkafka")
    for rule in SHIPPED:
        assert rule.concerns(name, version) in (True, False)


@given(text=st.text(max_size=60))
def test_a_range_is_read_or_refused_in_a_sentence(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert parse_range(text).contains(parsed("1.0")) in (True, False)


@given(words=st.text(alphabet="abcxyz", min_size=1))
def test_a_range_without_a_number_is_refused(words: str) -> None:
    with pytest.raises(ValueError, match="is not a bound of a version range, for example"):
        parse_range(f">={words}")


@pytest.mark.parametrize("text", ["*", "", " "])
def test_no_bound_is_every_version(text: str) -> None:
    assert parse_range(text).contains(parsed("0"))

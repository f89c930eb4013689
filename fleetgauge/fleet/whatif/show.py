"""Output of `fleet whatif`: the ranked table, suggestions, and remarks on the figures and on clients left out."""

from collections.abc import Iterator
from typing import Any, Final

from fleetgauge.fleet.arrow import pa
from fleetgauge.fleet.report.tables import Row, TableForm, number_text
from fleetgauge.fleet.whatif.whatif import Answer

_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def bytes_text(number: float | None, per: str = "") -> str | None:
    """Bytes in a suitable unit.

    >>> bytes_text(1_048_576, "/s"), bytes_text(950)
    ('1.05 MB/s', '950 B')
    """
    if number is None:
        return None
    at = 0
    while number >= 999.5 and at < len(_UNITS) - 1:  # what rounds to 1,000
        number, at = number / 1_000, at + 1
    return f"{number:.0f} {_UNITS[at]}{per}" if at == 0 else f"{number:.3g} {_UNITS[at]}{per}"


def seconds_text(seconds: float | None) -> str | None:
    """A length of time in two units.

    >>> seconds_text(0.25), seconds_text(75), seconds_text(90_000)
    ('250 ms', '1m 15s', '1d 1h')
    """
    if seconds is None:
        return None
    if seconds < 1:
        return f"{seconds * 1_000:.0f} ms"
    texts: list[str] = []
    rest = round(seconds)
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")):
        count, rest = divmod(rest, length)
        if count or texts:
            texts.append(f"{count}{unit}" if count else "")
    return " ".join(text for text in texts[:2] if text)


def _who(row: Row) -> str:
    parts = (("user", row["user"]), ("client-id", row["client_id"]))
    return ",".join(f"{kind}={name}" for kind, name in parts if name is not None)


def _share(row: Row) -> str | None:
    if row["throttled_share"] is None:
        return "not sent" if row["instances_without_bytes"] else "not recorded"
    return f"{100 * row['throttled_share']:.1f} %" if row["throttled"] else "never"


def _ratio(row: Row) -> str | None:
    return None if row["peak_ratio"] is None else f"{row['peak_ratio']:.2f} x"


def _held(column: str, text: Any) -> Any:
    return lambda row: text(row[column]) if row["throttled"] else None


FORM: Final = TableForm(
    columns={
        "who": _who,
        "quota": lambda row: row["quota_key"],
        "limit": lambda row: bytes_text(row["limit_bytes_per_s"], "/s"),
        "throttled": _share,
        "longest": _held("longest_s", seconds_text),
        "mean delay": _held("mean_delay_ms", lambda value: None if value is None else seconds_text(value / 1_000)),
        "waiting": _held("waiting_max_bytes", bytes_text),
        "peak": lambda row: bytes_text(row["peak_bytes_per_s"], "/s"),
        "of limit": _ratio,
        "mean": lambda row: bytes_text(row["mean_bytes_per_s"], "/s"),
        "broker": lambda row: row["broker"],
        "brokers": lambda row: None if row["brokers"] is None else f"{row['brokers_throttled']} of {row['brokers']}",
        "by broker": lambda row: row["by_broker"],
        "recorded": lambda row: seconds_text(row["recorded_s"]),
        "instances": lambda row: number_text(row["instances"]),
        "without bytes": lambda row: number_text(row["instances_without_bytes"]),
        "by quota of": lambda row: row["quota"],
        "cluster": lambda row: row["cluster_id"],
    },
    least=(
        "cluster", "by quota of", "without bytes", "instances", "recorded", "by broker", "mean", "brokers", "broker",
        "waiting", "mean delay", "quota",
    ),
)  # fmt: skip


def remarks(answer: Answer, window_s: int) -> Iterator[str]:
    """Sentences below the table: counts, suggested limits, the meaning of the figures, and clients left out."""
    rows = answer.rows
    known = rows.num_rows - rows["throttled"].null_count
    throttled = rows["throttled"].to_pylist().count(True)
    yield f"{throttled:,} of {known:,} entities would have been throttled."
    for each in answer.suggestions:
        name = f"{each.quota.name},{each.quota.key}"
        if each.quota.limit is None:
            yield f"No limit for {name}: no rates are recorded for its clients."
        else:
            yield f"Suggested: {name}={each.quota.limit:.0f} would have throttled {each.throttles:,} of {each.of:,}."
    yield (
        f"Rates are means over {window_s} s or a push interval; brokers measure over 10 s or so. Shorter bursts do not "
        "show, so the number of throttled entities and their throttle times are lower bounds."
    )
    if answer.held:
        clients = "1 client was" if answer.held == 1 else f"{answer.held:,} clients were"
        yield (
            f"{clients} throttled in this time: the recorded rates are what a limit in force let through, not what the "
            "clients would have sent. A suggested limit is too low for them."
        )
    yield from _brokers(rows)
    yield from _left_out(answer, rows)


def _brokers(rows: pa.Table) -> Iterator[str]:
    by = rows["by_broker"].to_pylist()
    if count := by.count("even"):
        yield (
            f"For {count:,} of them only the sum over brokers is known; it is spread evenly over the brokers that they "
            "are connected to. A limit applies per broker: --spread one shows the worst case."
        )
    if count := by.count("one"):
        yield f"For {count:,} of them all bytes count at one broker, the worst case: a limit applies per broker."


def _left_out(answer: Answer, rows: pa.Table) -> Iterator[str]:
    if unsent := answer.fleet.unsent:
        listed = ", ".join(_counted(count, f"{library} {role}") for (library, role), count in sorted(unsent.items()))
        yield (
            f"Not replayed: {listed}, whose library does not send bytes. Use the brokers' own byte-rate metrics with "
            "--rates or --prometheus."
        )
        if mixed := sum(
            row["throttled"] is not None and row["instances_without_bytes"] > 0 for row in rows.to_pylist()
        ):
            yield f"The figures of {mixed:,} entities lack the bytes of these clients and are too low."
    silent = sum(
        row["throttled"] is None and row["limit_bytes_per_s"] is not None
        and row["instances"] > row["instances_without_bytes"]
        for row in rows.to_pylist()
    )  # fmt: skip
    if silent:
        yield (
            f"No bytes are recorded for {silent:,}, although their library sends them: subscribe to "
            "org.apache.kafka.producer.node.outgoing.byte.total and org.apache.kafka.consumer.node.incoming.byte.total."
        )
    if answer.fleet.unlimited:
        yield f"{_counted(answer.fleet.unlimited, 'client instance')} without any of these limits."


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"

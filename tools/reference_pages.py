"""The reference pages of the documentation, each made from what the code declares. `make docs` puts them on the site."""

import ast
import importlib
import inspect
import itertools
import re
import sys
import tomllib
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version as installed
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le
from prometheus_client import Metric
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from support import helm
from support.brokers import broker_pipeline, kafka_jars
from support.clients import telemetry_clients
from support.fleet import spark_versions
from support.receivers import otel_collector
from typer import Context
from typer.main import get_command
from unit.node.status.test_exposition import status

from fleetgauge.cli import app as fleetgauge
from fleetgauge.fleet.tables.catalog import TABLES, Table
from fleetgauge.node.config.model import TABLES as NESTED
from fleetgauge.node.config.model import ServiceConfig
from fleetgauge.node.config.security import ListenerKeys
from fleetgauge.node.status.exposition import families
from fleetgauge.telemetry.catalogue.standard_metrics import REQUIRED_SOURCE, selected
from fleetgauge.terminal.help import examples, paragraphs
from fleetgauge.verdicts.catalogue import VERDICTS
from fleetgauge.verdicts.rules import DEFAULTS

ROOT: Final = Path(__file__).resolve().parents[1]
INTERNAL: Final = ("referenced_secrets",)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell(text) for text in line) + " |" for line in lines)


def cell(text: str) -> str:
    """Text in one cell: on one line, without an end of the cell, and with no HTML outside of code."""
    line = " ".join(text.split()).replace("|", "\\|")
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(part if number % 2 else part.replace("<", "&lt;") for number, part in enumerate(parts))


def code(text: str) -> str:
    """Text as code; nothing for no text."""
    return f"`{text}`" if text else ""


def configuration() -> str:
    """Every configuration key."""
    texts = {
        name: text
        for each in reversed(ServiceConfig.__mro__)
        if issubclass(each, BaseModel) and each is not BaseModel
        for name, text in meanings(each).items()
    }
    fields = ServiceConfig.model_fields
    own = {name: field for name, field in fields.items() if name not in (*NESTED, *ListenerKeys.model_fields)}
    of_listeners = {name: fields[name] for name in ListenerKeys.model_fields}
    nested = {name: fields[name] for name in NESTED if name not in INTERNAL}
    head = ("key", "type", "default", "meaning")

    def rows(group: Mapping[str, FieldInfo]) -> Iterator[tuple[str, ...]]:
        for name, field in group.items():
            default = field.get_default(call_default_factory=True)
            shown = "" if default in (None, "", ()) else plain(default)
            yield code(field.alias or name.replace("_", ".")), kind(field), code(shown), texts[name]

    return "\n\n".join(
        (
            "# Configuration keys",
            "`fleetgauge config` prints them with their values in force. How a file is written and where else values come from: [configuration.md](../operate/configuration.md).",
            "## Of the process",
            table(head, rows(own)),
            "## Of listeners",
            "For all listeners, or for one: `listener.name.<name in lower case>.<key>`. See [security.md](../operate/security.md) and [connection-limits.md](../limit/connection-limits.md).",
            table(head, rows(of_listeners)),
            "## Tables",
            table(("table", "meaning"), ((code(name.replace("_", ".")), texts[name]) for name in nested)),
            "Keys of exporters: [landing.md](../deliver/destinations.md) and [prometheus.md](../deliver/prometheus.md); of subscriptions: [metrics-and-guard.md](../operate/metrics-and-guard.md); of quotas: [quotas.md](../limit/quotas.md).",
        )
    )


def plain(value: object) -> str:
    """A default as it is written in a file, without quotes."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def kind(field: FieldInfo) -> str:
    """The type of a key with its bounds."""
    bounds = {type(each): each for each in field.metadata}
    least, most = (getattr(bounds.get(each), name, None) for each, name in ((Ge, "ge"), (Le, "le")))
    if least is None:
        return type_name(field.annotation)
    return f"{type_name(field.annotation)}, {least:,} {'or more' if most is None else f'to {most:,}'}"


def type_name(annotation: Any) -> str:
    """A type as an operator would call it."""
    if get_origin(annotation) is Annotated:
        return type_name(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return " or ".join(code(str(value)) for value in get_args(annotation))
    if get_origin(annotation) in (Union, types.UnionType):
        return type_name(next(each for each in get_args(annotation) if each is not type(None)))
    if get_origin(annotation) is tuple:
        return "list"
    return {bool: "true or false", int: "integer", float: "number", str: "text", Path: "path"}.get(annotation, "text")


def metrics() -> str:
    """Every metric of `/metrics`, by the status in which everything is there that can be."""
    found = sorted(families(status(), ()), key=lambda family: family.name)

    def row(family: Metric) -> tuple[str, ...]:
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = sorted({label for sample in family.samples for label in sample.labels} - {"le"})
        return code(name), family.type, " ".join(map(code, labels)), family.documentation

    return "\n\n".join(
        (
            "# Metrics of a process",
            "What `fleetgauge serve` and `export` serve at `/metrics` of their [HTTP port](../operate/http.md). Series of clients are on [a page of their own](../deliver/prometheus.md).",
            table(("metric", "type", "labels", "meaning"), map(row, found)),
        )
    )


def client_metrics() -> str:
    """Every metric that clients are known to send."""
    rows = (
        (
            code(each.name),
            each.type,
            "required" if each.is_required else "standard" if each.is_standard else "",
            ", ".join(each.clients),
            each.meaning or "",
        )
        for each in selected(("*",))
    )
    return "\n\n".join(
        (
            "# Metrics of clients",
            "Those that clients are known to send, by the names that subscriptions use; `fleetgauge metrics --prefix ...` lists what a prefix selects.",
            f"Which of the standard metrics of KIP-714 every client must have is shown {REQUIRED_SOURCE}.",
            table(("metric", "type", "KIP-714", "clients", "meaning"), rows),
        )
    )


def verdicts() -> str:
    """Every verdict with its figures."""
    defaults = tomllib.loads(DEFAULTS.read_text())
    blocks = dict(re.findall(r"^\[([\w-]+)\]\n(.*?)(?=^\[|\Z)", DEFAULTS.read_text(), re.MULTILINE | re.DOTALL))
    parts = [
        "# Verdicts",
        "How they are judged and ranked: [verdicts.md](../analyse/verdicts.md). `fleetgauge fleet rules` prints the figures.",
    ]
    rows = (
        (f"[{each.id}](#{each.id})", str(defaults[each.id]["severity"]), each.kind, each.side, ", ".join(each.explains))
        for each in sorted(VERDICTS, key=lambda each: each.id)
    )
    parts.append(table(("verdict", "severity", "subject", "who acts", "may explain"), rows))
    for each in sorted(VERDICTS, key=lambda each: each.id):
        libraries = ((library, " ".join(map(code, columns)) or "any push") for library, columns in each.needs.items())
        parts += [f"## {each.id}", f"**Do:** {cell(each.action)}", f"About: {', '.join(each.roles)}."]
        parts += [
            table(("library", "needs one of the columns"), libraries),
            f"```toml\n[{each.id}]\n{blocks[each.id].strip()}\n```",
        ]
    return "\n\n".join(parts)


def commands() -> str:
    """Every command with its options."""
    parts = ["# Commands", "As `-h` describes them."]
    for name, command in walk("fleetgauge", get_command(fleetgauge)):
        usage = " ".join(command.collect_usage_pieces(Context(command)))
        parts += [
            f"## {name}",
            f"```\n{name} {usage}\n```",
            *paragraphs(command),
            "```sh\n" + "\n".join(examples(command)) + "\n```",
        ]
        context = Context(command, info_name=name)
        rows = [
            option
            for option in command.get_params(context)
            if not getattr(option, "hidden", False) and option.name != "help"
        ]
        if rows:
            parts.append(table(("option", "value", "default", "meaning"), (option_row(row, context) for row in rows)))
    return "\n\n".join(parts)


def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command, or all below a group."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for word in command.commands:
        yield from walk(f"{name} {word}", getattr(command, "load", command.commands.get)(word))


def option_row(option: Any, context: Context) -> tuple[str, ...]:
    """One option or argument of a command."""
    spelled = ", ".join(map(code, (*option.opts, *option.secondary_opts)))
    value = "" if getattr(option, "is_flag", False) else option.metavar or option.display_type(context)
    default = option.default
    shown = "" if default in (None, False, "") or callable(default) else str(getattr(default, "value", default))
    return spelled, code(str(value)), code(shown), getattr(option, "help", "") or ""


def tables() -> str:
    """Every standing table with its columns."""
    texts = constant_meanings()
    parts = [
        "# Tables of the fleet",
        "What `fleet run` writes below `--tables`, as Delta Lake. Meanings: [fleet-run.md](../analyse/fleet-run.md#the-tables).",
    ]
    for each in TABLES.values():
        parts += [f"## {each.name}", texts.get(id(each.schema), ""), layout(each)]
        parts.append(table(("column", "type"), ((code(field.name), str(field.type)) for field in each.schema)))
    return "\n\n".join(part for part in parts if part)


def layout(each: Table) -> str:
    """Where a table is and how it is laid out."""
    clustered = f" Clustered by {', '.join(map(code, each.clustered_by))}." if each.clustered_by else ""
    partitioned = " Partitioned by `date`, the day of receipt (UTC)." if each.dated else ""
    return f"`{each.path('')}`: made by {each.made_by.split(' makes')[0]}.{partitioned}{clustered}"


def constant_meanings() -> dict[int, str]:
    """The meanings of constants that are schemas, by the identity of the schema."""
    names = (
        "fleetgauge.fleet.schemas",
        "fleetgauge.fleet.tables.catalog",
        "fleetgauge.fleet.measures.rows",
        "fleetgauge.verdicts.witnesses.offsets",
        "fleetgauge.verdicts.rows",
    )
    modules = [importlib.import_module(name) for name in names]
    return {id(getattr(each, constant)): text for each in modules for constant, text in meanings(each).items()}


def meanings(declared: type | types.ModuleType) -> dict[str, str]:
    """The docstrings below the annotated names of a class or module, which Python does not keep."""
    tree = ast.parse(inspect.getsource(declared))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) and isinstance(declared, type) else tree.body
    found = {}
    for above, below in itertools.pairwise(body):
        match above, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
    return found


def versions() -> str:
    """What tests run, by the constants that they run it by."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    spark = next(each for each in project["optional-dependencies"]["spark"] if each.startswith("pyspark"))
    java = re.findall(r"-(?:ge|lt) (\d+)", (ROOT / ".ci/java.sh").read_text())
    clients: dict[str, set[str]] = {"java": set(broker_pipeline.JAVA_VERSIONS)}
    for process, version in telemetry_clients.VERSIONS:
        newest = installed("confluent-kafka") if version == telemetry_clients.LibrdkafkaProcess.NEWEST else version
        clients.setdefault(process.library, set()).add(newest)
    rows = [
        (
            "Apache Kafka brokers, with the plugin",
            ", ".join(sorted(kafka_jars.VERSIONS, key=as_numbers)),
            "3.7 and later, KRaft",
        ),
        *(
            (f"client: {name}", ", ".join(sorted(found, key=as_numbers)), "from the first with KIP-714 on")
            for name, found in clients.items()
        ),
        ("Python", f"{sys.version_info.major}.{sys.version_info.minor}", project["requires-python"]),
        ("Java, for `fleet` on Spark", java[0], f"{java[0]} to {int(java[1]) - 1}"),
        ("PySpark", f"{spark_versions.OLDEST}, {spark_versions.NEWEST}", spark.partition("]")[2].replace(",", ", ")),
        ("OpenTelemetry Collector", otel_collector.VERSION.removeprefix("v"), "any OTLP receiver"),
        ("Kubernetes (schemas)", ", ".join(helm.KUBERNETES), f"{helm.KUBERNETES[0]} and later"),
        ("Helm", helm.VERSION.removeprefix("v"), "3 and later"),
    ]
    return "\n\n".join(
        (
            "# Versions",
            "The versions in the middle are those that the tests of every change run; this page is made from their constants.",
            table(("part", "tested", "supported"), rows),
            "Client versions that need care: [metrics-and-guard.md](../operate/metrics-and-guard.md).",
        )
    )


def as_numbers(version: str) -> list[int]:
    """For sorting versions."""
    return [int(part) for part in re.findall(r"\d+", version)]


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "configuration": configuration,
    "commands": commands,
    "metrics": metrics,
    "client-metrics": client_metrics,
    "verdicts": verdicts,
    "tables": tables,
    "versions": versions,
}
"""Name of each generated page below reference/, and what makes its Markdown."""

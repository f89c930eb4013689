"""Errors of this room. `fleet` may not import `wire`, so its base class is separate from `base.errors`."""


class FleetError(Exception):
    """Base class of the errors that this room raises deliberately; the text is one sentence for an operator."""


class WrongOptionError(FleetError):
    """An option, or the rule file that it names, is invalid: starting again would not help."""


class JavaError(FleetError):
    """Java is missing or too old for Spark."""


class LandingError(FleetError):
    """The landing zone cannot be read: no such path, no files, or files without push records."""


class SourceError(WrongOptionError):
    """The value of `--source`, or one of its options, is not in a known form."""


class TopicError(FleetError):
    """A topic cannot be read: no broker answers, no such topic, no permission, or no records."""


class JarError(FleetError):
    """A jar beyond PySpark's own (the Kafka connector, Delta Lake) is missing and cannot be fetched."""


class TableError(FleetError):
    """A table is missing, is not a Fleetgauge table, or is being written by another process."""


class UnreadableTableError(TableError):
    """A table cannot be read: it is damaged, or its store does not answer."""


class BusyError(TableError):
    """Another process is using the tables: the command can be repeated later."""


class NotInstalledError(FleetError):
    """A package of an optional extra is not installed."""


class SparkEndedError(FleetError):
    """The JVM of Spark has ended; only another process can start another."""


class OutputError(FleetError):
    """A result cannot be written as asked."""


class SchemaError(FleetError):
    """A frame lacks columns, or has them in another type than its schema says."""


def no_landing_zone(source: str) -> str:
    """Error sentence for a source path that does not exist, the same for all commands."""
    return (
        f"there is no landing zone at {source}: set --source to the directory of the exporter of type landing "
        "(created with its first files, one or two minutes after the first push)"
    )


def first_line(error: BaseException) -> str:
    """The first line of an exception's text: Spark adds the plan and the JVM's stack."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]

"""The room's own errors. `fleet` may not import `wire`, so its root stands beside `base.errors`."""


class FleetError(Exception):
    """Root of what this room raises on purpose; its text is one sentence for an operator."""


class WrongOptionError(FleetError):
    """An option, or the rule file that it names, is not what it has to be: to start again would not help."""


class JavaError(FleetError):
    """Java is missing or too old for Spark."""


class LandingError(FleetError):
    """The landing zone cannot be read: no such path, nothing in it, or files that are no push records."""


class SourceError(WrongOptionError):
    """What `--source` and its options name is in no form that is known."""


class TopicError(FleetError):
    """A topic cannot be read: no broker answers, no such topic, not allowed, or nothing on it."""


class JarError(FleetError):
    """A jar beyond PySpark's own (the Kafka connector, Delta Lake) is not there and cannot be had."""


class TableError(FleetError):
    """A standing table is missing, is none of ours, or somebody else is writing it."""


class UnreadableTableError(TableError):
    """A standing table cannot be read: it is damaged, or its store does not answer."""


class BusyError(TableError):
    """Another process is at work on the tables: what is asked can be done later."""


class NotInstalledError(FleetError):
    """What an extra of this package brings is not there."""


class SparkEndedError(FleetError):
    """The JVM of Spark has ended; only another process can start another."""


class SchemaError(FleetError):
    """A frame lacks columns, or has them in another type than its schema says."""


def no_landing_zone(source: str) -> str:
    """What a path that is not there is answered with, by whatever looks for a landing zone."""
    return (
        f"there is no landing zone at {source}: name with --source the directory that the exporter of type landing "
        "writes to (it makes it with its first files, a minute or two after the first push)"
    )


def first_line(error: BaseException) -> str:
    """The first line of an exception's text: Spark adds the plan and the JVM's stack."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]

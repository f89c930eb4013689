"""Gold: metrics that clients are known to send: the standard-metrics table as a table."""

from fleetgauge.fleet.arrow import Table, pa
from fleetgauge.fleet.schemas import METRICS
from fleetgauge.telemetry.catalogue.standard_metrics import known_metrics


def metrics() -> Table:
    """The standard-metrics table -> METRICS: some hundreds of rows, to be joined to POINTS by `metric_name`.

    >>> known = metrics().filter(pc.field("metric_name") == "org.apache.kafka.consumer.coordinator.rebalance.total")
    >>> show(known, "metric_type unit meaning clients")
    metric_type  unit  meaning                                             clients
    sum          1     rebalances that the consumer took part in, counted  java
    """
    of_metric = {name: name.removeprefix("metric_") for name in METRICS.names}
    rows = [{name: getattr(metric, own) for name, own in of_metric.items()} for metric in known_metrics()]
    return pa.Table.from_pylist(rows, schema=METRICS)

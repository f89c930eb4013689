"""Kafka's quota engine as a library: sensors, statistics, and a broker's quota managers. It needs no broker.

    from fleetgauge.quotas import ClientQuotaManager, ClientQuotaManagerConfig, Metrics, Quota, QuotaType, Session

Every public name is imported from here; docs/develop/quotas.md lists and explains them, with a first quota. The engine
opens no socket and starts no thread or loop: it is given what was used and the time, and returns how long to hold a
client.

Rules of the interface:

- Names are Kafka's in snake_case; a unit ends the name (`_ms`, `_seconds`).
- A read without arguments that is cheap and cannot fail is a property; everything else is a method.
- Misuse (an argument of the wrong type, a value out of range, a call in the wrong order) is a `TypeError` or a
  `ValueError`; only a statistic's own `record` and `measure`, which a sensor calls, check nothing. A limit or a key of
  the configuration that Kafka refuses is an `InvalidConfigError`, a bound that is exceeded a `QuotaViolationError` or
  one of the errors of connections and mutations.
- `now_ms` and `time_ms` are **monotonic** time [ms], `Time.hi_res_clock_ms()`. Kafka takes wall time for some of
  them. Wall time is decades ahead of it: a channel that is throttled by wall time stays muted, a sensor never expires,
  and windows are lost or frozen when the wall clock is set. Nothing can detect that here, so never pass
  `Time.milliseconds()` or `time.time()`. Where the argument may be left out, leave it out: the right clock is read.
- A value that violates a sensor's quota is recorded in it all the same, but not in its parents, as in Kafka. To take
  nothing where a quota is exhausted, use `Sensor.check_and_record` (KIP-599).
"""

import logging

from fleetgauge.base.public_names import public_names, require_full_name

require_full_name(__name__)

# Nothing is printed unless the application configures `logging`.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__getattr__, __all__ = public_names(
    __name__,
    {
        "base.clock": "MockTime SystemTime Time",
        "base.errors": "ErrorCode InvalidConfigError InvalidRequestError",
        "base.principal": "KafkaPrincipal",
        "quotas.callback": "ClientQuotaCallback Cluster PartitionInfo load_callback",
        "quotas.client_quota": "ClientQuotaManager ClientQuotaManagerConfig ClientSensors",
        "quotas.client_request_quota": "ClientRequestQuotaManager nanos_to_percentage",
        "quotas.config": "QUOTA_KEYS QuotaConfig QuotaKey TOPIC_QUOTA_KEYS",
        "quotas.connections.connection_decisions": "Admit ConnectionThrottledError Decision Refuse "
        "TooManyConnectionsError Wait",
        "quotas.connections.connection_quota_config": "ConnectionQuotaConfig UNLIMITED",
        "quotas.connections.connection_quotas": "Connection ConnectionQuotas",
        "quotas.controller_mutation": "CREATE_PARTITIONS_STRICT_SINCE_VERSION CREATE_TOPICS_STRICT_SINCE_VERSION "
        "ControllerMutationQuota ControllerMutationQuotaManager "
        "DELETE_TOPICS_STRICT_SINCE_VERSION MutationQuotaExceededError RequestHeader",
        "quotas.default_quota_callback": "DefaultQuotaCallback",
        "quotas.drivers.asyncio_connections": "AsyncioConnectionQuotas",
        "quotas.drivers.asyncio_reaper": "AsyncioReaper",
        "quotas.drivers.blocking_connections": "BlockingConnectionQuotas",
        "quotas.drivers.reaper_thread": "ReaperThread",
        "quotas.entity": "ClientIdEntity ConfigEntity ConfigEntityType DEFAULT_CLIENT_ID_ENTITY DEFAULT_IP_ENTITY "
        "DEFAULT_USER_ENTITY DefaultEntity IpEntity KafkaQuotaEntity UserEntity desanitize sanitize",
        "quotas.identities": "Identities Identity",
        "quotas.metrics.kafka_metric": "KafkaMetric",
        "quotas.limits": "EntityQuotaKey IP_QUOTA_KEYS TELEMETRY_QUOTA_KEYS USER_AND_CLIENT_QUOTA_KEYS "
        "checked_quota_value",
        "quotas.managers": "QuotaManagers ReaperDriver",
        "quotas.metrics.metric_config": "MetricConfig UNBOUNDED",
        "quotas.metrics.metric_name": "MetricName",
        "quotas.metrics.metrics": "Metrics",
        "quotas.metrics.metrics_reporter": "MetricsReporter",
        "quotas.metrics.quota": "Quota",
        "quotas.quota_type": "ClientQuotaType QuotaType",
        "quotas.replication": "ReplicationQuotaManager ReplicationQuotaManagerConfig parse_throttled_replicas",
        "quotas.metrics.sensor": "QuotaViolationError Sensor",
        "quotas.session": "Session",
        "quotas.metrics.stats.cumulative": "CumulativeCount CumulativeSum Value",
        "quotas.metrics.stats.meter": "Meter",
        "quotas.metrics.stats.rate": "Rate SimpleRate",
        "quotas.metrics.stats.sampled_stat": "Avg Max Min SampledStat",
        "quotas.metrics.stats.stat": "CompoundStat Gauge Measurable MeasurableStat NamedMeasurable Stat TimeUnit",
        "quotas.metrics.stats.token_bucket": "TokenBucket",
        "quotas.metrics.stats.windowed_sum": "WindowedCount WindowedSum",
        "quotas.throttled_channel": "ThrottleCallback ThrottledChannel ThrottledChannelReaper",
        "quotas.usage": "QuotaUsage usages",
    },
)

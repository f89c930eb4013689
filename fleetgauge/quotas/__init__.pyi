"""The public names of `quotas`, for type checkers and editors; see `__init__.py`."""

from fleetgauge.base.clock import MockTime as MockTime
from fleetgauge.base.clock import SystemTime as SystemTime
from fleetgauge.base.clock import Time as Time
from fleetgauge.base.errors import ErrorCode as ErrorCode
from fleetgauge.base.errors import InvalidConfigError as InvalidConfigError
from fleetgauge.base.errors import InvalidRequestError as InvalidRequestError
from fleetgauge.base.principal import KafkaPrincipal as KafkaPrincipal
from fleetgauge.quotas.callback import ClientQuotaCallback as ClientQuotaCallback
from fleetgauge.quotas.callback import Cluster as Cluster
from fleetgauge.quotas.callback import PartitionInfo as PartitionInfo
from fleetgauge.quotas.callback import load_callback as load_callback
from fleetgauge.quotas.client_quota import ClientQuotaManager as ClientQuotaManager
from fleetgauge.quotas.client_quota import ClientQuotaManagerConfig as ClientQuotaManagerConfig
from fleetgauge.quotas.client_quota import ClientSensors as ClientSensors
from fleetgauge.quotas.client_request_quota import ClientRequestQuotaManager as ClientRequestQuotaManager
from fleetgauge.quotas.client_request_quota import nanos_to_percentage as nanos_to_percentage
from fleetgauge.quotas.config import QUOTA_KEYS as QUOTA_KEYS
from fleetgauge.quotas.config import TOPIC_QUOTA_KEYS as TOPIC_QUOTA_KEYS
from fleetgauge.quotas.config import QuotaConfig as QuotaConfig
from fleetgauge.quotas.config import QuotaKey as QuotaKey
from fleetgauge.quotas.connections.connection_decisions import Admit as Admit
from fleetgauge.quotas.connections.connection_decisions import ConnectionThrottledError as ConnectionThrottledError
from fleetgauge.quotas.connections.connection_decisions import Decision as Decision
from fleetgauge.quotas.connections.connection_decisions import Refuse as Refuse
from fleetgauge.quotas.connections.connection_decisions import TooManyConnectionsError as TooManyConnectionsError
from fleetgauge.quotas.connections.connection_decisions import Wait as Wait
from fleetgauge.quotas.connections.connection_quota_config import UNLIMITED as UNLIMITED
from fleetgauge.quotas.connections.connection_quota_config import ConnectionQuotaConfig as ConnectionQuotaConfig
from fleetgauge.quotas.connections.connection_quotas import Connection as Connection
from fleetgauge.quotas.connections.connection_quotas import ConnectionQuotas as ConnectionQuotas
from fleetgauge.quotas.controller_mutation import (
    CREATE_PARTITIONS_STRICT_SINCE_VERSION as CREATE_PARTITIONS_STRICT_SINCE_VERSION,
)
from fleetgauge.quotas.controller_mutation import (
    CREATE_TOPICS_STRICT_SINCE_VERSION as CREATE_TOPICS_STRICT_SINCE_VERSION,
)
from fleetgauge.quotas.controller_mutation import (
    DELETE_TOPICS_STRICT_SINCE_VERSION as DELETE_TOPICS_STRICT_SINCE_VERSION,
)
from fleetgauge.quotas.controller_mutation import ControllerMutationQuota as ControllerMutationQuota
from fleetgauge.quotas.controller_mutation import ControllerMutationQuotaManager as ControllerMutationQuotaManager
from fleetgauge.quotas.controller_mutation import MutationQuotaExceededError as MutationQuotaExceededError
from fleetgauge.quotas.controller_mutation import RequestHeader as RequestHeader
from fleetgauge.quotas.default_quota_callback import DefaultQuotaCallback as DefaultQuotaCallback
from fleetgauge.quotas.drivers.asyncio_connections import AsyncioConnectionQuotas as AsyncioConnectionQuotas
from fleetgauge.quotas.drivers.asyncio_reaper import AsyncioReaper as AsyncioReaper
from fleetgauge.quotas.drivers.blocking_connections import BlockingConnectionQuotas as BlockingConnectionQuotas
from fleetgauge.quotas.drivers.reaper_thread import ReaperThread as ReaperThread
from fleetgauge.quotas.entity import DEFAULT_CLIENT_ID_ENTITY as DEFAULT_CLIENT_ID_ENTITY
from fleetgauge.quotas.entity import DEFAULT_IP_ENTITY as DEFAULT_IP_ENTITY
from fleetgauge.quotas.entity import DEFAULT_USER_ENTITY as DEFAULT_USER_ENTITY
from fleetgauge.quotas.entity import ClientIdEntity as ClientIdEntity
from fleetgauge.quotas.entity import ConfigEntity as ConfigEntity
from fleetgauge.quotas.entity import ConfigEntityType as ConfigEntityType
from fleetgauge.quotas.entity import DefaultEntity as DefaultEntity
from fleetgauge.quotas.entity import IpEntity as IpEntity
from fleetgauge.quotas.entity import KafkaQuotaEntity as KafkaQuotaEntity
from fleetgauge.quotas.entity import UserEntity as UserEntity
from fleetgauge.quotas.entity import desanitize as desanitize
from fleetgauge.quotas.entity import sanitize as sanitize
from fleetgauge.quotas.identities import Identities as Identities
from fleetgauge.quotas.identities import Identity as Identity
from fleetgauge.quotas.limits import IP_QUOTA_KEYS as IP_QUOTA_KEYS
from fleetgauge.quotas.limits import TELEMETRY_QUOTA_KEYS as TELEMETRY_QUOTA_KEYS
from fleetgauge.quotas.limits import USER_AND_CLIENT_QUOTA_KEYS as USER_AND_CLIENT_QUOTA_KEYS
from fleetgauge.quotas.limits import EntityQuotaKey as EntityQuotaKey
from fleetgauge.quotas.limits import checked_quota_value as checked_quota_value
from fleetgauge.quotas.managers import QuotaManagers as QuotaManagers
from fleetgauge.quotas.managers import ReaperDriver as ReaperDriver
from fleetgauge.quotas.metrics.kafka_metric import KafkaMetric as KafkaMetric
from fleetgauge.quotas.metrics.metric_config import UNBOUNDED as UNBOUNDED
from fleetgauge.quotas.metrics.metric_config import MetricConfig as MetricConfig
from fleetgauge.quotas.metrics.metric_name import MetricName as MetricName
from fleetgauge.quotas.metrics.metrics import Metrics as Metrics
from fleetgauge.quotas.metrics.metrics_reporter import MetricsReporter as MetricsReporter
from fleetgauge.quotas.metrics.quota import Quota as Quota
from fleetgauge.quotas.metrics.sensor import QuotaViolationError as QuotaViolationError
from fleetgauge.quotas.metrics.sensor import Sensor as Sensor
from fleetgauge.quotas.metrics.stats.cumulative import CumulativeCount as CumulativeCount
from fleetgauge.quotas.metrics.stats.cumulative import CumulativeSum as CumulativeSum
from fleetgauge.quotas.metrics.stats.cumulative import Value as Value
from fleetgauge.quotas.metrics.stats.meter import Meter as Meter
from fleetgauge.quotas.metrics.stats.rate import Rate as Rate
from fleetgauge.quotas.metrics.stats.rate import SimpleRate as SimpleRate
from fleetgauge.quotas.metrics.stats.sampled_stat import Avg as Avg
from fleetgauge.quotas.metrics.stats.sampled_stat import Max as Max
from fleetgauge.quotas.metrics.stats.sampled_stat import Min as Min
from fleetgauge.quotas.metrics.stats.sampled_stat import SampledStat as SampledStat
from fleetgauge.quotas.metrics.stats.stat import CompoundStat as CompoundStat
from fleetgauge.quotas.metrics.stats.stat import Gauge as Gauge
from fleetgauge.quotas.metrics.stats.stat import Measurable as Measurable
from fleetgauge.quotas.metrics.stats.stat import MeasurableStat as MeasurableStat
from fleetgauge.quotas.metrics.stats.stat import NamedMeasurable as NamedMeasurable
from fleetgauge.quotas.metrics.stats.stat import Stat as Stat
from fleetgauge.quotas.metrics.stats.stat import TimeUnit as TimeUnit
from fleetgauge.quotas.metrics.stats.token_bucket import TokenBucket as TokenBucket
from fleetgauge.quotas.metrics.stats.windowed_sum import WindowedCount as WindowedCount
from fleetgauge.quotas.metrics.stats.windowed_sum import WindowedSum as WindowedSum
from fleetgauge.quotas.quota_type import ClientQuotaType as ClientQuotaType
from fleetgauge.quotas.quota_type import QuotaType as QuotaType
from fleetgauge.quotas.replication import ReplicationQuotaManager as ReplicationQuotaManager
from fleetgauge.quotas.replication import ReplicationQuotaManagerConfig as ReplicationQuotaManagerConfig
from fleetgauge.quotas.replication import parse_throttled_replicas as parse_throttled_replicas
from fleetgauge.quotas.session import Session as Session
from fleetgauge.quotas.throttled_channel import ThrottleCallback as ThrottleCallback
from fleetgauge.quotas.throttled_channel import ThrottledChannel as ThrottledChannel
from fleetgauge.quotas.throttled_channel import ThrottledChannelReaper as ThrottledChannelReaper
from fleetgauge.quotas.usage import QuotaUsage as QuotaUsage
from fleetgauge.quotas.usage import usages as usages

"""The public names of `exporters`, for type checkers and editors; see `__init__.py`."""

from base.errors import FleetgaugeError as FleetgaugeError
from exporters.exporter import BatchSettings as BatchSettings
from exporters.exporter import Delivered as Delivered
from exporters.exporter import Exporter as Exporter
from exporters.exporter import Outcome as Outcome
from exporters.exporter import Refused as Refused
from exporters.exporter import RefusedRecord as RefusedRecord
from exporters.exporter import Retry as Retry
from exporters.exporter import RetrySettings as RetrySettings
from exporters.exporter import TooLarge as TooLarge
from exporters.exporter import reach_tcp as reach_tcp
from exporters.labels import Labeller as Labeller
from exporters.labels import LabelSettings as LabelSettings
from exporters.options import ExporterConfigError as ExporterConfigError
from exporters.options import Options as Options
from exporters.options import batch_settings as batch_settings
from exporters.options import label_settings as label_settings
from exporters.options import retry_settings as retry_settings
from exporters.protobuf_wire import MalformedPayloadError as MalformedPayloadError
from push_log.log import Batch as Batch
from telemetry.push_record import PushRecord as PushRecord

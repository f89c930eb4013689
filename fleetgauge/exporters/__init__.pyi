"""The public names of `exporters`, for type checkers and editors; see `__init__.py`."""

from fleetgauge.base.errors import FleetgaugeError as FleetgaugeError
from fleetgauge.exporters.exporter import BatchSettings as BatchSettings
from fleetgauge.exporters.exporter import Delivered as Delivered
from fleetgauge.exporters.exporter import Exporter as Exporter
from fleetgauge.exporters.exporter import Outcome as Outcome
from fleetgauge.exporters.exporter import Refused as Refused
from fleetgauge.exporters.exporter import RefusedRecord as RefusedRecord
from fleetgauge.exporters.exporter import Retry as Retry
from fleetgauge.exporters.exporter import RetrySettings as RetrySettings
from fleetgauge.exporters.exporter import TooLarge as TooLarge
from fleetgauge.exporters.exporter import reach_tcp as reach_tcp
from fleetgauge.exporters.labels import Labeller as Labeller
from fleetgauge.exporters.labels import LabelSettings as LabelSettings
from fleetgauge.exporters.options import ExporterConfigError as ExporterConfigError
from fleetgauge.exporters.options import Options as Options
from fleetgauge.exporters.options import batch_settings as batch_settings
from fleetgauge.exporters.options import label_settings as label_settings
from fleetgauge.exporters.options import retry_settings as retry_settings
from fleetgauge.exporters.protobuf_wire import MalformedPayloadError as MalformedPayloadError
from fleetgauge.push_log.log import Batch as Batch
from fleetgauge.telemetry.push_record import PushRecord as PushRecord

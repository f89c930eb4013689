"""Types of quotas."""

import enum


class ClientQuotaType(enum.Enum):
    """The quotas that a `ClientQuotaCallback` decides on (KIP-257; KIP-599 added the fourth).

    The last two are Fleetgauge's own, so that a callback groups clients for them as well.
    """

    PRODUCE = "Produce"
    FETCH = "Fetch"
    REQUEST = "Request"
    CONTROLLER_MUTATION = "ControllerMutation"
    TELEMETRY_BYTE = "TelemetryByte"
    TELEMETRY_PUSH = "TelemetryPush"


class QuotaType(enum.Enum):
    """All of Kafka's quotas, and two of our own. The value is the metric group, and the prefix of sensor names.

    `RLM_COPY` and `RLM_FETCH` throttle tiered storage, which does not exist here; they are listed for completeness.
    `TELEMETRY_BYTE` and `TELEMETRY_PUSH` limit client telemetry (KIP-714), and throttle no channel.
    """

    FETCH = "Fetch"
    PRODUCE = "Produce"
    REQUEST = "Request"
    CONTROLLER_MUTATION = "ControllerMutation"
    LEADER_REPLICATION = "LeaderReplication"
    FOLLOWER_REPLICATION = "FollowerReplication"
    ALTER_LOG_DIRS_REPLICATION = "AlterLogDirsReplication"
    RLM_COPY = "RLMCopy"
    RLM_FETCH = "RLMFetch"
    TELEMETRY_BYTE = "TelemetryByte"
    TELEMETRY_PUSH = "TelemetryPush"

    def __str__(self) -> str:
        return self.value

    def to_client_quota_type(self) -> ClientQuotaType:
        """Returns the corresponding `ClientQuotaType`.

        >>> QuotaType.PRODUCE.to_client_quota_type()
        <ClientQuotaType.PRODUCE: 'Produce'>

        Raises:
            ValueError: there is none.
        """
        if self.name not in ClientQuotaType.__members__:
            raise ValueError(f"Not a client quota type: {self.name}")
        return ClientQuotaType[self.name]

"""What quotas are kept on."""

import enum


class ClientQuotaType(enum.Enum):
    """The quotas that a `ClientQuotaCallback` decides on (KIP-257; KIP-599 added the fourth).

    The last two are Fleetgauge's own, so that whoever groups clients for Kafka's quotas groups them for these as well.
    """

    PRODUCE = "Produce"
    FETCH = "Fetch"
    REQUEST = "Request"
    CONTROLLER_MUTATION = "ControllerMutation"
    TELEMETRY_BYTE = "TelemetryByte"
    TELEMETRY_PUSH = "TelemetryPush"


class QuotaType(enum.Enum):
    """All of Kafka's quotas, and two of our own. The value is a group of metrics, and how names of sensors begin.

    `RLM_COPY` and `RLM_FETCH` throttle tiered storage, which nothing here has; they are named for completeness.
    `TELEMETRY_BYTE` and `TELEMETRY_PUSH` are on what clients push of their metrics (KIP-714), and throttle no channel.
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
        """The same as a quota on clients.

        >>> QuotaType.PRODUCE.to_client_quota_type()
        <ClientQuotaType.PRODUCE: 'Produce'>

        Raises:
            ValueError: it is none of those.
        """
        if self.name not in ClientQuotaType.__members__:
            raise ValueError(f"Not a client quota type: {self.name}")
        return ClientQuotaType[self.name]

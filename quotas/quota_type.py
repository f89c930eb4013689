"""What quotas are kept on."""

import enum


class ClientQuotaType(enum.Enum):
    """The quotas that a `ClientQuotaCallback` decides on (KIP-257; KIP-599 added the last)."""

    PRODUCE = "Produce"
    FETCH = "Fetch"
    REQUEST = "Request"
    CONTROLLER_MUTATION = "ControllerMutation"


class QuotaType(enum.Enum):
    """All of Kafka's quotas. The value is their group of metrics and the beginning of their sensors' names.

    `RLM_COPY` and `RLM_FETCH` throttle tiered storage, which nothing here has; they are named for completeness.
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

    def __str__(self) -> str:
        return self.value

    def to_client_quota_type(self) -> ClientQuotaType:
        """The same as a quota on clients.

        >>> QuotaType.PRODUCE.to_client_quota_type()
        <ClientQuotaType.PRODUCE: 'Produce'>

        Raises:
            ValueError: it is none of the four.
        """
        if self.name not in ClientQuotaType.__members__:
            raise ValueError(f"Not a client quota type: {self.name}")
        return ClientQuotaType[self.name]

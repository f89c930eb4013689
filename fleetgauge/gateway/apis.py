"""The APIs that the gateway passes: Kafka's, as far as their layout is known (Kafka 4.3, and 2.8 to 3.9 before it)."""

from typing import Final, NamedTuple

PRODUCE: Final = 0
FETCH: Final = 1
METADATA: Final = 3
FIND_COORDINATOR: Final = 10
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
SASL_AUTHENTICATE: Final = 36
DESCRIBE_CLUSTER: Final = 60
GET_TELEMETRY_SUBSCRIPTIONS: Final = 71
PUSH_TELEMETRY: Final = 72
SHARE_FETCH: Final = 78
SHARE_ACKNOWLEDGE: Final = 79

DELEGATION_TOKENS: Final = frozenset({38, 39, 40, 41})
"""Create, renew, expire and describe: a broker that knows only the gateway's user would treat them as that user's
requests.
"""

NEVER: Final = 1 << 15
"""As `flexible_from`: no version has tagged fields."""


class PassedApi(NamedTuple):
    """One API.

    Attributes:
        name: Kafka's.
        max_version: the newest version that is known.
        flexible_from: the first version with tagged fields, in the headers too.
        min_version: the oldest version that is known: share groups had others in the early access of Kafka 4.0.
    """

    name: str
    max_version: int
    flexible_from: int
    min_version: int = 0


PASSED: Final[dict[int, PassedApi]] = {
    0: PassedApi("Produce", 13, 9),
    1: PassedApi("Fetch", 18, 12),
    2: PassedApi("ListOffsets", 11, 6),
    3: PassedApi("Metadata", 13, 9),
    8: PassedApi("OffsetCommit", 10, 8),
    9: PassedApi("OffsetFetch", 10, 6),
    10: PassedApi("FindCoordinator", 6, 3),
    11: PassedApi("JoinGroup", 9, 6),
    12: PassedApi("Heartbeat", 4, 4),
    13: PassedApi("LeaveGroup", 5, 4),
    14: PassedApi("SyncGroup", 5, 4),
    15: PassedApi("DescribeGroups", 6, 5),
    16: PassedApi("ListGroups", 5, 3),
    17: PassedApi("SaslHandshake", 1, NEVER),
    18: PassedApi("ApiVersions", 4, 3),
    19: PassedApi("CreateTopics", 7, 5),
    20: PassedApi("DeleteTopics", 6, 4),
    21: PassedApi("DeleteRecords", 2, 2),
    22: PassedApi("InitProducerId", 6, 2),
    23: PassedApi("OffsetForLeaderEpoch", 4, 4),
    24: PassedApi("AddPartitionsToTxn", 5, 3),
    25: PassedApi("AddOffsetsToTxn", 4, 3),
    26: PassedApi("EndTxn", 5, 3),
    27: PassedApi("WriteTxnMarkers", 2, 1),
    28: PassedApi("TxnOffsetCommit", 5, 3),
    29: PassedApi("DescribeAcls", 3, 2),
    30: PassedApi("CreateAcls", 3, 2),
    31: PassedApi("DeleteAcls", 3, 2),
    32: PassedApi("DescribeConfigs", 4, 4),
    33: PassedApi("AlterConfigs", 2, 2),
    34: PassedApi("AlterReplicaLogDirs", 2, 2),
    35: PassedApi("DescribeLogDirs", 5, 2),
    36: PassedApi("SaslAuthenticate", 2, 2),
    37: PassedApi("CreatePartitions", 3, 2),
    38: PassedApi("CreateDelegationToken", 3, 2),
    39: PassedApi("RenewDelegationToken", 2, 2),
    40: PassedApi("ExpireDelegationToken", 2, 2),
    41: PassedApi("DescribeDelegationToken", 3, 2),
    42: PassedApi("DeleteGroups", 2, 2),
    43: PassedApi("ElectLeaders", 2, 2),
    44: PassedApi("IncrementalAlterConfigs", 1, 1),
    45: PassedApi("AlterPartitionReassignments", 1, 0),
    46: PassedApi("ListPartitionReassignments", 0, 0),
    47: PassedApi("OffsetDelete", 0, NEVER),
    48: PassedApi("DescribeClientQuotas", 1, 1),
    49: PassedApi("AlterClientQuotas", 1, 1),
    50: PassedApi("DescribeUserScramCredentials", 0, 0),
    51: PassedApi("AlterUserScramCredentials", 0, 0),
    55: PassedApi("DescribeQuorum", 2, 0),
    57: PassedApi("UpdateFeatures", 2, 0),
    60: PassedApi("DescribeCluster", 2, 0),
    61: PassedApi("DescribeProducers", 0, 0),
    64: PassedApi("UnregisterBroker", 0, 0),
    65: PassedApi("DescribeTransactions", 0, 0),
    66: PassedApi("ListTransactions", 2, 0),
    68: PassedApi("ConsumerGroupHeartbeat", 1, 0),
    69: PassedApi("ConsumerGroupDescribe", 1, 0),
    71: PassedApi("GetTelemetrySubscriptions", 0, 0),
    72: PassedApi("PushTelemetry", 0, 0),
    74: PassedApi("ListConfigResources", 1, 0),
    75: PassedApi("DescribeTopicPartitions", 0, 0),
    76: PassedApi("ShareGroupHeartbeat", 1, 0),
    77: PassedApi("ShareGroupDescribe", 1, 0),
    78: PassedApi("ShareFetch", 2, 0, 1),
    79: PassedApi("ShareAcknowledge", 2, 0, 1),
    80: PassedApi("AddRaftVoter", 1, 0),
    81: PassedApi("RemoveRaftVoter", 0, 0),
    83: PassedApi("InitializeShareGroupState", 0, 0),
    84: PassedApi("ReadShareGroupState", 0, 0),
    85: PassedApi("WriteShareGroupState", 1, 0),
    86: PassedApi("DeleteShareGroupState", 0, 0),
    87: PassedApi("ReadShareGroupStateSummary", 1, 0),
    88: PassedApi("StreamsGroupHeartbeat", 0, 0),
    89: PassedApi("StreamsGroupDescribe", 0, 0),
    90: PassedApi("DescribeShareGroupOffsets", 1, 0),
    91: PassedApi("AlterShareGroupOffsets", 0, 0),
    92: PassedApi("DeleteShareGroupOffsets", 0, 0),
}
"""Passed APIs by API key. Requests between brokers and controllers do not pass."""

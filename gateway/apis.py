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

NEVER: Final = 1 << 15
"""As `flexible_from`: no version has tagged fields."""


class PassedApi(NamedTuple):
    """One API.

    Attributes:
        name: Kafka's.
        max_version: the newest version that is known.
        flexible_from: the first version with tagged fields, in the headers too.
    """

    name: str
    max_version: int
    flexible_from: int


PASSED: Final[dict[int, PassedApi]] = {
    key: PassedApi(name, max_version, flexible_from)
    for key, name, max_version, flexible_from in (
        (0, "Produce", 13, 9),
        (1, "Fetch", 18, 12),
        (2, "ListOffsets", 11, 6),
        (3, "Metadata", 13, 9),
        (8, "OffsetCommit", 10, 8),
        (9, "OffsetFetch", 10, 6),
        (10, "FindCoordinator", 6, 3),
        (11, "JoinGroup", 9, 6),
        (12, "Heartbeat", 4, 4),
        (13, "LeaveGroup", 5, 4),
        (14, "SyncGroup", 5, 4),
        (15, "DescribeGroups", 6, 5),
        (16, "ListGroups", 5, 3),
        (17, "SaslHandshake", 1, NEVER),
        (18, "ApiVersions", 4, 3),
        (19, "CreateTopics", 7, 5),
        (20, "DeleteTopics", 6, 4),
        (21, "DeleteRecords", 2, 2),
        (22, "InitProducerId", 6, 2),
        (23, "OffsetForLeaderEpoch", 4, 4),
        (24, "AddPartitionsToTxn", 5, 3),
        (25, "AddOffsetsToTxn", 4, 3),
        (26, "EndTxn", 5, 3),
        (27, "WriteTxnMarkers", 2, 1),
        (28, "TxnOffsetCommit", 5, 3),
        (29, "DescribeAcls", 3, 2),
        (30, "CreateAcls", 3, 2),
        (31, "DeleteAcls", 3, 2),
        (32, "DescribeConfigs", 4, 4),
        (33, "AlterConfigs", 2, 2),
        (34, "AlterReplicaLogDirs", 2, 2),
        (35, "DescribeLogDirs", 5, 2),
        (36, "SaslAuthenticate", 2, 2),
        (37, "CreatePartitions", 3, 2),
        (38, "CreateDelegationToken", 3, 2),
        (39, "RenewDelegationToken", 2, 2),
        (40, "ExpireDelegationToken", 2, 2),
        (41, "DescribeDelegationToken", 3, 2),
        (42, "DeleteGroups", 2, 2),
        (43, "ElectLeaders", 2, 2),
        (44, "IncrementalAlterConfigs", 1, 1),
        (45, "AlterPartitionReassignments", 1, 0),
        (46, "ListPartitionReassignments", 0, 0),
        (47, "OffsetDelete", 0, NEVER),
        (48, "DescribeClientQuotas", 1, 1),
        (49, "AlterClientQuotas", 1, 1),
        (50, "DescribeUserScramCredentials", 0, 0),
        (51, "AlterUserScramCredentials", 0, 0),
        (55, "DescribeQuorum", 2, 0),
        (57, "UpdateFeatures", 2, 0),
        (60, "DescribeCluster", 2, 0),
        (61, "DescribeProducers", 0, 0),
        (64, "UnregisterBroker", 0, 0),
        (65, "DescribeTransactions", 0, 0),
        (66, "ListTransactions", 2, 0),
        (68, "ConsumerGroupHeartbeat", 1, 0),
        (69, "ConsumerGroupDescribe", 1, 0),
        (71, "GetTelemetrySubscriptions", 0, 0),
        (72, "PushTelemetry", 0, 0),
        (74, "ListConfigResources", 1, 0),
        (75, "DescribeTopicPartitions", 0, 0),
        (76, "ShareGroupHeartbeat", 1, 0),
        (77, "ShareGroupDescribe", 1, 0),
        (78, "ShareFetch", 2, 0),
        (79, "ShareAcknowledge", 2, 0),
        (80, "AddRaftVoter", 1, 0),
        (81, "RemoveRaftVoter", 0, 0),
        (83, "InitializeShareGroupState", 0, 0),
        (84, "ReadShareGroupState", 0, 0),
        (85, "WriteShareGroupState", 1, 0),
        (86, "DeleteShareGroupState", 0, 0),
        (87, "ReadShareGroupStateSummary", 1, 0),
        (88, "StreamsGroupHeartbeat", 0, 0),
        (89, "StreamsGroupDescribe", 0, 0),
        (90, "DescribeShareGroupOffsets", 1, 0),
        (91, "AlterShareGroupOffsets", 0, 0),
        (92, "DeleteShareGroupOffsets", 0, 0),
    )
}
"""By api key. Requests between brokers and controllers are not passed."""

MAPPED: Final[dict[int, PassedApi]] = {
    key: api._replace(max_version=15) if key == FETCH else api
    for key, api in PASSED.items()
    if key not in (SHARE_FETCH, SHARE_ACKNOWLEDGE)
}
"""The same where addresses are rewritten. From Fetch 16 on, and in both share APIs, they follow the records, whose
responses are passed without being collected (KIP-951)."""

"""Metadata (3) and DescribeCluster (60): describe a cluster of a single node without topics."""

import datetime
from collections.abc import Callable
from typing import Any

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode

from fleetgauge.listener.apis.messages import answer, new_part
from fleetgauge.listener.apis.unknown_topics import with_unknown_topics
from fleetgauge.listener.misdirected_clients import MisdirectedClients
from wire.api_table import ApiKey
from wire.codec import Request
from wire.listener import Channel

_NO_TIME = datetime.timedelta(0)
_BROKER_ENDPOINTS = 1
_MISMATCHED_ENDPOINT_TYPE = 114
_UNSUPPORTED_ENDPOINT_TYPE = 115


class ClusterApis:
    """Handlers of Metadata and DescribeCluster.

    Args:
        node_id: Kafka node id of this node.
        cluster_id: the cluster's id.
        advertised: returns the advertised host and port of a listener.
        misdirected: records clients that request a topic.
    """

    def __init__(
        self,
        node_id: int,
        cluster_id: str,
        advertised: Callable[[str], tuple[str, int]],
        misdirected: MisdirectedClients,
    ) -> None:
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._advertised = advertised
        self._misdirected = misdirected

    def handle_metadata(self, channel: Channel, request: Request) -> bytes:
        """Answers with this node as the only broker and controller; every requested topic is unknown."""
        schema: Any = load_response_schema(ApiKey.METADATA, request.api_version)
        host, port = self._advertised(channel.listener_name)
        broker = new_part(schema, "MetadataResponseBroker", node_id=self._node_id, host=host, port=port, rack=None)
        encoded = answer(
            request,
            throttle_time=_NO_TIME,
            brokers=(broker,),
            cluster_id=self._cluster_id,
            controller_id=self._node_id,
            topics=(),
            error_code=KioErrorCode.none,
        )
        topics = request.body.topics or ()
        if topics:
            asked_for = topics[0].name or getattr(topics[0], "topic_id", None)
            self._misdirected.note(channel, request.client_id, f"Metadata of topic {asked_for}")
        return with_unknown_topics(encoded, request.api_version, topics)

    def handle_describe_cluster(self, channel: Channel, request: Request) -> bytes:
        """Answers with this node as the cluster; there is no controller endpoint (KIP-919)."""
        schema: Any = load_response_schema(ApiKey.DESCRIBE_CLUSTER, request.api_version)
        asked = getattr(request.body, "endpoint_type", _BROKER_ENDPOINTS)
        error = _endpoint_error(asked)
        host, port = self._advertised(channel.listener_name)
        broker = new_part(
            schema, "DescribeClusterBroker", broker_id=self._node_id, host=host, port=port, rack=None, is_fenced=False
        )
        return answer(
            request,
            throttle_time=_NO_TIME,
            error_code=KioErrorCode(error),
            error_message="this endpoint is a broker's" if error else None,
            endpoint_type=_BROKER_ENDPOINTS,
            cluster_id=self._cluster_id,
            controller_id=self._node_id,
            brokers=() if error else (broker,),
        )


def _endpoint_error(endpoint_type: int) -> int:
    if endpoint_type == _BROKER_ENDPOINTS:
        return 0
    return _MISMATCHED_ENDPOINT_TYPE if endpoint_type == 2 else _UNSUPPORTED_ENDPOINT_TYPE

"""Metadata (3) and DescribeCluster (60): describe a cluster of a single node without topics."""

from collections.abc import Callable

from kio.schema.errors import ErrorCode as KioErrorCode

from fleetgauge.node.listener.apis.messages import answer, new_part
from fleetgauge.node.listener.apis.unknown_topics import with_unknown_topics
from fleetgauge.node.listener.misdirected_clients import MisdirectedClients
from fleetgauge.node.state.authorization import Authorization
from fleetgauge.wire.listener import Channel
from fleetgauge.wire.messages.codec import Request

_BROKER_ENDPOINTS = 1
_NOT_ASKED = -(2**31)
_MISMATCHED_ENDPOINT_TYPE = 114
_UNSUPPORTED_ENDPOINT_TYPE = 115


class ClusterApis:
    """Handlers of Metadata and DescribeCluster.

    Args:
        node_id: Kafka node id of this node.
        cluster_id: the cluster's id.
        advertised: returns the advertised host and port of a listener.
        authorization: knows what a client may do.
        misdirected: records clients that request a topic.
    """

    def __init__(
        self,
        node_id: int,
        cluster_id: str,
        advertised: Callable[[str], tuple[str, int]],
        authorization: Authorization,
        misdirected: MisdirectedClients,
    ) -> None:
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._advertised = advertised
        self._authorization = authorization
        self._misdirected = misdirected

    def handle_metadata(self, channel: Channel, request: Request) -> bytes:
        """Answers with this node as the only broker and controller; every requested topic is unknown."""
        host, port = self._advertised(channel.listener_name)
        broker = new_part(request, "MetadataResponseBroker", node_id=self._node_id, host=host, port=port, rack=None)
        encoded = answer(
            request,
            brokers=(broker,),
            cluster_id=self._cluster_id,
            controller_id=self._node_id,
            topics=(),
            cluster_authorized_operations=self._authorized_operations(channel, request),
            error_code=KioErrorCode.none,
        )
        topics = request.body.topics or ()
        if topics:
            asked_for = topics[0].name or getattr(topics[0], "topic_id", None)
            self._misdirected.note(channel, request.client_id, f"Metadata of topic {asked_for}")
        return with_unknown_topics(encoded, request.api_version, topics)

    def handle_describe_cluster(self, channel: Channel, request: Request) -> bytes:
        """Answers with this node as the cluster; there is no controller endpoint (KIP-919)."""
        asked = getattr(request.body, "endpoint_type", _BROKER_ENDPOINTS)
        error = _endpoint_error(asked)
        host, port = self._advertised(channel.listener_name)
        broker = new_part(
            request, "DescribeClusterBroker", broker_id=self._node_id, host=host, port=port, rack=None, is_fenced=False
        )
        return answer(
            request,
            error_code=KioErrorCode(error),
            error_message="this endpoint is for brokers" if error else None,
            endpoint_type=_BROKER_ENDPOINTS,
            cluster_id=self._cluster_id,
            controller_id=self._node_id,
            brokers=() if error else (broker,),
            cluster_authorized_operations=self._authorized_operations(channel, request),
        )

    def _authorized_operations(self, channel: Channel, request: Request) -> int:
        if not getattr(request.body, "include_cluster_authorized_operations", False):
            return _NOT_ASKED
        return self._authorization.authorized_operations(channel.principal, channel.client_address)


def _endpoint_error(endpoint_type: int) -> int:
    if endpoint_type == _BROKER_ENDPOINTS:
        return 0
    return _MISMATCHED_ENDPOINT_TYPE if endpoint_type == 2 else _UNSUPPORTED_ENDPOINT_TYPE

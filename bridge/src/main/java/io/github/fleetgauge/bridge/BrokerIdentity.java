package io.github.fleetgauge.bridge;

import java.util.Map;
import org.apache.kafka.common.metrics.MetricsContext;

/** Which broker of which cluster this is: the fields {@code receiver_node_id} and {@code cluster_id}. */
final class BrokerIdentity {

    private static final String CLUSTER_ID_LABEL = "kafka.cluster.id";
    private static final String NODE_ID_LABEL = "kafka.node.id";

    private final String nodeId;
    private final String clusterId;

    BrokerIdentity(String nodeId, String clusterId) {
        this.nodeId = nodeId;
        this.clusterId = clusterId;
    }

    /** What the configuration alone says: the node id; the cluster id comes with the context. */
    static BrokerIdentity fromConfig(Map<String, ?> configs) {
        Object nodeId = configs.get("node.id");
        Object brokerId = nodeId == null ? configs.get("broker.id") : nodeId;
        return new BrokerIdentity(brokerId == null ? "" : brokerId.toString(), "");
    }

    /** This identity with what the broker's MetricsContext (KIP-606) says. */
    BrokerIdentity with(MetricsContext context) {
        Map<String, String> labels = context.contextLabels();
        return new BrokerIdentity(
                labels.getOrDefault(NODE_ID_LABEL, nodeId), labels.getOrDefault(CLUSTER_ID_LABEL, clusterId));
    }

    String nodeId() {
        return nodeId;
    }

    String clusterId() {
        return clusterId;
    }
}

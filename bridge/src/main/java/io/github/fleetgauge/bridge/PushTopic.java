package io.github.fleetgauge.bridge;

import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.function.Supplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** The push log's topic: it is there, or it is made. */
class PushTopic {

    private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(1);

    private final BridgeConfig config;
    private final Supplier<Admin> admins;
    private Admin admin;

    /** {@code admins} gives a client, which is kept until it has found or made the topic. */
    PushTopic(BridgeConfig config, Supplier<Admin> admins) {
        this.config = config;
        this.admins = admins;
    }

    /**
     * Creates the topic unless it exists; waits as long as the admin client does.
     *
     * @throws KafkaException the cluster cannot be reached or refuses, or the topic is missing and must not be made
     */
    void ensure() throws InterruptedException {
        if (admin == null) {
            admin = admins.get();
        }
        if (!exists()) {
            create();
        }
        close();
    }

    /** Closes the client, if one is left of an attempt that failed. */
    void close() {
        if (admin != null) {
            admin.close(CLOSE_TIMEOUT);
            admin = null;
        }
    }

    private boolean exists() throws InterruptedException {
        try {
            admin.describeTopics(Collections.singleton(config.topic())).allTopicNames().get();
            return true;
        } catch (ExecutionException e) {
            if (e.getCause() instanceof UnknownTopicOrPartitionException) {
                return false;
            }
            throw failure("cannot be described", e);
        }
    }

    private void create() throws InterruptedException {
        if (!config.topicCreate()) {
            throw new KafkaException(
                    "The topic " + config.topic() + " does not exist and " + BridgeConfig.TOPIC_CREATE + " is false");
        }
        try {
            admin.createTopics(Collections.singleton(newTopic())).all().get();
        } catch (ExecutionException e) {
            if (!(e.getCause() instanceof TopicExistsException)) { // another broker was faster
                throw failure("cannot be created", e);
            }
        }
    }

    /** The topic as it is made. What the cluster's defaults could spoil is set: no compaction, no recompression. */
    NewTopic newTopic() {
        Map<String, String> settings = new HashMap<>();
        settings.put(TopicConfig.CLEANUP_POLICY_CONFIG, TopicConfig.CLEANUP_POLICY_DELETE);
        settings.put(TopicConfig.COMPRESSION_TYPE_CONFIG, "producer");
        settings.put(TopicConfig.MAX_MESSAGE_BYTES_CONFIG, String.valueOf(config.maxRecordBytes()));
        settings.put(TopicConfig.MESSAGE_TIMESTAMP_TYPE_CONFIG, "CreateTime");
        settings.put(TopicConfig.RETENTION_MS_CONFIG, String.valueOf(config.topicRetentionMs()));
        return new NewTopic(config.topic(), optional(config.topicPartitions()), replicas()).configs(settings);
    }

    private Optional<Short> replicas() {
        short replicas = config.topicReplicationFactor();
        return replicas == -1 ? Optional.empty() : Optional.of(replicas);
    }

    private static Optional<Integer> optional(int number) {
        return number == -1 ? Optional.empty() : Optional.of(number);
    }

    private KafkaException failure(String what, ExecutionException e) {
        return new KafkaException("The topic " + config.topic() + " " + what + ": " + e.getCause(), e.getCause());
    }
}

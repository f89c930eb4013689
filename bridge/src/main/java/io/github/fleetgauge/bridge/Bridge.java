package io.github.fleetgauge.bridge;

import java.lang.management.ManagementFactory;
import java.time.Clock;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import javax.management.JMException;
import javax.management.ObjectName;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The parts of the plugin, put together: intake, buffer, sender with its thread, and the MBean. */
final class Bridge implements BridgeMXBean {

    private static final Logger LOG = LoggerFactory.getLogger(Bridge.class);
    private static final long GRACE_MS = 1_000;

    private final BridgeConfig config;
    private final BrokerIdentity broker;
    private final BridgeCounters counters = new BridgeCounters();
    private final PushBuffer buffer;
    private final PushIntake intake;
    private final PushSender sender;
    private final Thread thread;
    private final String objectName;

    Bridge(BridgeConfig config, BrokerIdentity broker, Clock clock) {
        this.config = config;
        buffer = new PushBuffer(config.bufferBytes());
        intake = new PushIntake(config, broker, buffer, counters, clock, Bridge::monotonicMs, new PushIds());
        String clientId = "fleetgauge-bridge-" + broker.nodeId();
        Map<String, Object> producerSettings = ClientSettings.producer(config, clientId);
        Map<String, Object> adminSettings = ClientSettings.admin(config, clientId);
        sender =
                new PushSender(
                        config,
                        buffer,
                        counters,
                        new MinuteLog(config, counters, LOG::warn, LOG::info),
                        BrokerStartup.of(config, Bridge::monotonicMs),
                        new PushTopic(config, () -> Admin.create(adminSettings)),
                        () -> new KafkaProducer<>(producerSettings),
                        Bridge::monotonicMs,
                        new Backoff(500, 30_000));
        thread = new Thread(sender, "fleetgauge-bridge");
        thread.setDaemon(true);
        this.broker = broker;
        objectName = "fleetgauge:type=bridge,node-id=" + broker.nodeId();
    }

    PushIntake intake() {
        return intake;
    }

    /** Starts the thread and shows the MBean. */
    void start() {
        LOG.info(
                "Fleetgauge plugin {} loaded: client telemetry pushes that node {} accepts are written to the topic {}.",
                version(),
                broker.nodeId(),
                config.topic());
        try {
            ManagementFactory.getPlatformMBeanServer().registerMBean(this, new ObjectName(objectName));
        } catch (JMException e) {
            LOG.warn("The MBean {} cannot be registered; pushes are written all the same.", objectName, e);
        }
        thread.start();
    }

    /** Ends within fleetgauge.close.timeout.ms and two seconds, whatever the thread waits for. */
    void close() {
        intake.close();
        boolean connected = getState().equals("DELIVERING");
        sender.close();
        if (!connected) {
            thread.interrupt(); // it may wait for a cluster that is not there
        }
        try {
            join(config.closeTimeoutMs() + GRACE_MS);
            if (thread.isAlive()) {
                thread.interrupt();
                join(GRACE_MS);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        unregister();
    }

    /** Of the jar; classes that are in no jar have none. */
    private static String version() {
        String version = Bridge.class.getPackage().getImplementationVersion();
        return version == null ? "(no release)" : version;
    }

    private void join(long ms) throws InterruptedException {
        TimeUnit.MILLISECONDS.timedJoin(thread, ms);
    }

    private void unregister() {
        try {
            ObjectName name = new ObjectName(objectName);
            if (ManagementFactory.getPlatformMBeanServer().isRegistered(name)) {
                ManagementFactory.getPlatformMBeanServer().unregisterMBean(name);
            }
        } catch (JMException e) {
            LOG.warn("The MBean {} cannot be taken away.", objectName, e);
        }
    }

    private static long monotonicMs() {
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime());
    }

    @Override
    public long getReceivedTotal() {
        return counters.received();
    }

    @Override
    public long getReceivedBytesTotal() {
        return counters.receivedBytes();
    }

    @Override
    public long getDeliveredTotal() {
        return counters.delivered();
    }

    @Override
    public long getRetriedTotal() {
        return counters.retried();
    }

    @Override
    public long getDroppedBufferFullTotal() {
        return counters.dropped(DropCause.BUFFER_FULL);
    }

    @Override
    public long getDroppedTooLargeTotal() {
        return counters.dropped(DropCause.TOO_LARGE);
    }

    @Override
    public long getDroppedExpiredTotal() {
        return counters.dropped(DropCause.EXPIRED);
    }

    @Override
    public long getDroppedClosedTotal() {
        return counters.dropped(DropCause.CLOSED);
    }

    @Override
    public long getDroppedErrorTotal() {
        return counters.dropped(DropCause.ERROR);
    }

    @Override
    public long getBufferedPushes() {
        return buffer.pushes();
    }

    @Override
    public long getBufferedBytes() {
        return buffer.bytes();
    }

    @Override
    public long getBufferMaxBytes() {
        return buffer.maxBytes();
    }

    @Override
    public String getState() {
        return sender.state();
    }

    @Override
    public String getTopic() {
        return config.topic();
    }

    @Override
    public String getLastError() {
        return counters.lastError();
    }
}

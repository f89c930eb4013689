package io.github.fleetgauge.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.ClusterAuthorizationException;
import org.apache.kafka.common.errors.NotLeaderOrFollowerException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.junit.jupiter.api.Test;

class PushSenderTest {

    /** Refuses within send() while {@code refusal} is set, as KafkaProducer does; its callbacks come later. */
    private static final class FakeProducer extends MockProducer<byte[], byte[]> {
        FakeProducer() {
            super(false, null, new ByteArraySerializer(), new ByteArraySerializer());
        }

        @Override
        public synchronized Future<RecordMetadata> send(ProducerRecord<byte[], byte[]> record, Callback callback) {
            if (refusal != null) {
                callback.onCompletion(null, refusal);
                return null;
            }
            Future<RecordMetadata> sent = super.send(record, callback);
            if (broken != null) {
                throw broken; // the record stays in the accumulator until it is aborted, and then calls back
            }
            return sent;
        }

        private Exception refusal;
        private RuntimeException broken;
    }

    /** A broker that has started, unless a test says otherwise. */
    private static final class FakeStartup extends BrokerStartup {
        private boolean over = true;

        FakeStartup() {
            super(null, () -> 0);
        }

        @Override
        boolean isOver(boolean pushed) {
            return over || pushed;
        }
    }

    /** A topic that is away for as many looks as {@code failures} says. */
    private static final class FakeTopic extends PushTopic {
        private int failures;
        private int looks;

        FakeTopic() {
            super(Pushes.config(), null);
        }

        @Override
        void ensure() {
            looks++;
            if (failures-- > 0) {
                throw new KafkaException("away");
            }
        }
    }

    private final BridgeConfig config = Pushes.config("fleetgauge.close.timeout.ms", "1000");
    private final BridgeCounters counters = new BridgeCounters();
    private final PushBuffer buffer = new PushBuffer(10_000);
    private final List<String> warnings = new ArrayList<>();
    private final List<String> infos = new ArrayList<>();
    private final FakeStartup startup = new FakeStartup();
    private final FakeTopic topic = new FakeTopic();
    private final List<FakeProducer> producers = new ArrayList<>();
    private long nowMs = 1_000_000;
    private final PushSender sender =
            new PushSender(
                    config,
                    buffer,
                    counters,
                    new MinuteLog(config, counters, warnings::add, infos::add),
                    startup,
                    topic,
                    this::newProducer,
                    () -> nowMs,
                    new Backoff(0, 0));

    @Test
    void noClientIsMadeBeforeTheBrokersListenerIsOpen() throws Exception {
        startup.over = false;
        sender.step();
        assertEquals(0, topic.looks);
        assertEquals("CONNECTING", sender.state());
        startup.over = true;
        sender.step();
        sender.step();
        assertEquals(1, topic.looks);
        assertEquals("DELIVERING", sender.state());
        assertEquals(1, infos.size(), infos.toString());
        assertTrue(infos.get(0).startsWith("Connected to the topic"), infos.get(0));
    }

    @Test
    void aPushThatIsBufferedEndsTheWaitForTheListener() throws Exception {
        startup.over = false;
        Pushes.buffered(buffer, 10, nowMs + 60_000);
        sender.step();
        assertEquals(1, topic.looks);
    }

    private FakeProducer newProducer() {
        producers.add(new FakeProducer());
        return latest();
    }

    private FakeProducer latest() {
        return producers.get(producers.size() - 1);
    }

    private PendingPush push(int bytes) {
        return Pushes.buffered(buffer, bytes, nowMs + 10_000);
    }

    @Test
    void aPushTakesItsSpaceUntilItIsAcknowledged() throws Exception {
        push(100);
        sender.step();
        assertEquals(100, buffer.bytes());
        assertEquals(0, counters.delivered());
        latest().completeNext();
        assertEquals(0, buffer.bytes());
        assertEquals(1, counters.delivered());
        assertEquals("DELIVERING", sender.state());
    }

    @Test
    void aPushWaitsWhileTheTopicIsAway() throws Exception {
        topic.failures = 3;
        push(100);
        for (int turn = 0; turn < 3; turn++) {
            sender.step();
            assertEquals("CONNECTING", sender.state());
        }
        assertEquals(1, warnings.size(), "three failures within a minute");
        assertTrue(warnings.get(0).contains("away"), warnings.get(0));
        sender.step();
        latest().completeNext();
        assertEquals(1, counters.delivered());
        assertEquals("DELIVERING", sender.state());
    }

    @Test
    void aFailureThatPassesIsTriedAgainWithTheSameRecord() throws Exception {
        PendingPush push = push(100);
        sender.step();
        latest().errorNext(new NotLeaderOrFollowerException("moved"));
        assertEquals("CONNECTING", sender.state());
        sender.step();
        assertEquals(1, producers.size());
        assertSame(push.record, latest().history().get(1));
        latest().completeNext();
        assertEquals(1, counters.retried());
        assertEquals(1, counters.delivered());
        assertEquals(0, buffer.pushes());
        assertEquals("DELIVERING", sender.state());
    }

    @Test
    void aMissingAclBreaksTheProducerAndANewOneDeliversOnceItIsThere() throws Exception {
        push(100);
        sender.step();
        FakeProducer broken = latest();
        broken.errorNext(new ClusterAuthorizationException("no"));
        sender.step();
        assertTrue(broken.closed());
        assertNotSame(broken, latest());
        assertEquals(2, topic.looks);
        latest().completeNext();
        assertEquals(1, counters.delivered());
    }

    @Test
    void aBrokenProducerThatThrowsAndCallsBackGivesAPushBackOnce() throws Exception {
        push(100);
        sender.step();
        latest().completeNext();
        FakeProducer broken = latest();
        push(200);
        broken.broken = new KafkaException("in an error state");
        sender.step();
        broken.errorNext(new ClusterAuthorizationException("aborted"));
        for (int turn = 0; turn < 2; turn++) {
            sender.step();
        }
        assertEquals(1, latest().history().size());
        latest().completeNext();
        assertEquals(2, counters.delivered());
        assertEquals(0, buffer.pushes());
        assertEquals(0, buffer.bytes());
    }

    @Test
    void aPushThatTheProducerDoesNotTakeIsTheNextToBeSent() throws Exception {
        PendingPush first = push(100);
        push(200);
        sender.step();
        latest().errorNext(new NotLeaderOrFollowerException("moved")); // first waits behind the other now
        latest().refusal = new TimeoutException("no metadata");
        sender.step();
        assertEquals(300, buffer.bytes());
        sender.step();
        sender.step();
        assertEquals(200, latest().history().get(0).value().length);
        assertSame(first.record, latest().history().get(1));
    }

    @Test
    void aRecordThatIsTooLargeIsGivenUpAndTheOthersGoOn() throws Exception {
        push(100);
        push(200);
        sender.step();
        latest().errorNext(new RecordTooLargeException("by the topic"));
        latest().refusal = new RecordTooLargeException("by the producer");
        sender.step();
        assertEquals(2, counters.dropped(DropCause.TOO_LARGE));
        assertEquals(0, buffer.bytes());
        assertEquals(1, producers.size());
    }

    @Test
    void aPushIsGivenUpAfterItsTimeEvenWhileTheTopicIsAway() throws Exception {
        topic.failures = 1;
        push(100);
        nowMs += 10_000;
        PendingPush younger = push(200);
        sender.step();
        assertEquals(1, counters.dropped(DropCause.EXPIRED));
        assertEquals(200, buffer.bytes());
        sender.step();
        assertSame(younger.record, latest().history().get(0));
    }

    @Test
    void theEndDeliversWhatWaitsAndCountsWhatItCannot() throws Exception {
        push(100);
        sender.step();
        push(200);
        push(300);
        sender.close();
        sender.run();
        assertEquals(3, latest().history().size());
        assertTrue(latest().closed());
        assertEquals("CLOSED", sender.state());
    }

    @Test
    void anEndWithoutTheTopicCountsEveryPushThatWaits() throws Exception {
        topic.failures = Integer.MAX_VALUE;
        push(100);
        push(200);
        sender.step();
        sender.close();
        sender.run();
        assertEquals(2, counters.dropped(DropCause.CLOSED));
        assertEquals(0, buffer.bytes());
        assertTrue(warnings.get(warnings.size() - 1).endsWith("closed 2"), warnings.toString());
    }

    @Test
    void theThreadGoesOnAfterAnyFault() throws Exception {
        PendingPush push = push(100);
        sender.step();
        latest().completeNext();
        latest().sendException = new IllegalStateException("a bug");
        push(200);
        sender.step();
        assertEquals(200, buffer.bytes());
        assertFalse(latest().history().contains(null));
        sender.step();
        assertEquals(2, producers.size());
        assertEquals(200, latest().history().get(0).value().length);
        assertEquals(100, push.bytes);
    }
}

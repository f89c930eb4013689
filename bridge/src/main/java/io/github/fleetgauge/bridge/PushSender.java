package io.github.fleetgauge.bridge;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.apache.kafka.clients.producer.BufferExhaustedException;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.RetriableException;

/**
 * The plugin's own thread: makes the topic, takes pushes from the buffer and produces them until they are acknowledged
 * or their time is over.
 *
 * <p>A push that fails goes back into the buffer with its deadline, under the same push_id; only a record that is too
 * large is given up at once. After a failure that no retry cures (an ACL that is missing, say) the producer is made
 * anew, since an idempotent one stays broken. Everything that takes time happens here, and the producer's own thread
 * calls back; no thread of the broker comes by but in {@link #close}.
 */
final class PushSender implements Runnable {

    private static final long POLL_MS = 500;
    private static final long STARTUP_POLL_MS = 250;

    private final PushBuffer buffer;
    private final BridgeCounters counters;
    private final MinuteLog log;
    private final BrokerStartup startup;
    private final PushTopic topic;
    private final Supplier<Producer<byte[], byte[]>> producers;
    private final LongSupplier nowMs;
    private final long closeTimeoutMs;
    private final Backoff backoff;
    private final CountDownLatch stop = new CountDownLatch(1);

    /** What failed last and is not overcome yet; null when records are acknowledged. */
    private final AtomicReference<Throwable> failure = new AtomicReference<>();

    private final AtomicReference<Producer<byte[], byte[]>> producer = new AtomicReference<>();
    private volatile boolean producerBroken;
    private volatile boolean acknowledged;

    /** Of the sender's thread alone. */
    private boolean deliveredBefore;

    PushSender(
            BridgeConfig config,
            PushBuffer buffer,
            BridgeCounters counters,
            MinuteLog log,
            BrokerStartup startup,
            PushTopic topic,
            Supplier<Producer<byte[], byte[]>> producers,
            LongSupplier nowMs,
            Backoff backoff) {
        this.buffer = buffer;
        this.counters = counters;
        this.log = log;
        this.startup = startup;
        this.topic = topic;
        this.producers = producers;
        this.nowMs = nowMs;
        this.backoff = backoff;
        this.closeTimeoutMs = config.closeTimeoutMs();
    }

    @Override
    public void run() {
        try {
            while (!isStopped()) {
                step();
            }
        } catch (InterruptedException | InterruptException e) {
            // Only close() interrupts, and what follows is what it wants.
        } finally {
            end();
        }
    }

    /** {@code CONNECTING}, {@code DELIVERING} or {@code CLOSED}. */
    String state() {
        if (isStopped()) {
            return "CLOSED";
        }
        return producer.get() == null || failure.get() != null ? "CONNECTING" : "DELIVERING";
    }

    /** Asks the thread to deliver what is buffered, within its bound, and to end. */
    void close() {
        stop.countDown();
    }

    /** One turn: connect if need be, and send one push if there is one. */
    void step() throws InterruptedException {
        reportProgress();
        dropExpired();
        try {
            if (!connect()) {
                return;
            }
            PendingPush push = buffer.poll(POLL_MS);
            if (push != null && !isExpired(push)) {
                send(push);
            }
        } catch (InterruptedException | InterruptException e) {
            throw e;
        } catch (Throwable fault) { // this thread goes on, whatever it is
            note(fault);
            pause();
        }
    }

    /** Makes room for what is newer while the topic is away. */
    private void dropExpired() {
        PendingPush push = buffer.poll();
        while (push != null && isExpired(push)) {
            push = buffer.poll();
        }
        if (push != null) {
            buffer.addFirst(push);
        }
    }

    /** Makes the producer unless there is one; false while this broker's listener is not open yet. */
    private boolean connect() throws InterruptedException {
        if (producerBroken) {
            closeProducer(0);
            producerBroken = false;
            pause();
        }
        if (producer.get() == null) {
            if (!startup.isOver(buffer.pushes() > 0)) {
                stop.await(STARTUP_POLL_MS, TimeUnit.MILLISECONDS);
                return false;
            }
            topic.ensure();
            producer.set(producers.get());
            log.connected();
        }
        return true;
    }

    private void send(PendingPush push) throws InterruptedException {
        Throwable refusal = produce(push);
        if (refusal instanceof InterruptException) {
            throw (InterruptException) refusal;
        }
        if (refusal instanceof BufferExhaustedException) {
            note(refusal);
            pause();
        } else if (refusal != null && !(refusal instanceof RecordTooLargeException)) {
            note(refusal);
            producerBroken = true; // the topic may be gone, too: both are looked at again
        }
    }

    /** Hands a push to the producer; returns why it did not take it, the push then being in the buffer again, or null. */
    private Throwable produce(PendingPush push) {
        Attempt attempt = new Attempt(push, producer.get(), Thread.currentThread());
        Throwable refusal;
        try {
            attempt.by.send(push.record, attempt);
            refusal = attempt.refusal;
        } catch (Throwable e) {
            refusal = e;
        }
        attempt.inSend = false;
        if (refusal instanceof RecordTooLargeException && attempt.settle()) {
            drop(push, DropCause.TOO_LARGE, refusal);
        } else if (refusal != null && attempt.settle()) {
            buffer.addFirst(push);
        }
        return refusal;
    }

    /**
     * One handing over of one push. It has one outcome, whichever is told first: a producer that is broken can throw
     * from send() and call back for the same record, too.
     */
    private final class Attempt implements Callback {
        private final PendingPush push;
        private final Producer<byte[], byte[]> by;
        private final Thread sender;
        private final AtomicBoolean settled = new AtomicBoolean();

        // Of the sender's thread alone.
        private boolean inSend = true;
        private Exception refusal;

        Attempt(PendingPush push, Producer<byte[], byte[]> by, Thread sender) {
            this.push = push;
            this.by = by;
            this.sender = sender;
        }

        /** True for the one who is to say what becomes of the push. */
        boolean settle() {
            return settled.compareAndSet(false, true);
        }

        @Override
        public void onCompletion(RecordMetadata metadata, Exception error) {
            if (error != null && Thread.currentThread() == sender && inSend) {
                refusal = error; // the producer did not take it: send() is not over yet
            } else if (settle()) {
                if (error == null) {
                    delivered(push);
                } else {
                    failed(push, error, by);
                }
            }
        }
    }

    /** Called by the producer's thread, as {@link #failed}. */
    private void delivered(PendingPush push) {
        buffer.release(push.bytes);
        counters.addDelivered();
        failure.set(null);
        acknowledged = true;
    }

    private void failed(PendingPush push, Exception error, Producer<byte[], byte[]> by) {
        if (error instanceof RecordTooLargeException) {
            drop(push, DropCause.TOO_LARGE, error);
            return;
        }
        buffer.addLast(push);
        if (producer.get() == by) { // else it is being closed, and this is how it gives its pushes back
            counters.addRetried();
            note(error);
            producerBroken |= !(error instanceof RetriableException);
        }
    }

    private boolean isExpired(PendingPush push) {
        boolean expired = nowMs.getAsLong() >= push.deadlineMs;
        if (expired) {
            buffer.release(push.bytes);
            counters.addDropped(DropCause.EXPIRED);
        }
        return expired;
    }

    private void drop(PendingPush push, DropCause cause, Throwable error) {
        counters.setLastError(error);
        counters.addDropped(cause);
        buffer.release(push.bytes);
    }

    private void note(Throwable error) {
        counters.setLastError(error);
        failure.set(error);
    }

    /** Lets a while go by after a failure, twice as long each time, unless the broker stops. */
    private void pause() throws InterruptedException {
        reportProgress();
        stop.await(backoff.next(), TimeUnit.MILLISECONDS);
    }

    private void reportProgress() {
        if (acknowledged) {
            acknowledged = false;
            backoff.reset();
            log.delivering(!deliveredBefore);
            deliveredBefore = true;
        }
        Throwable now = failure.get();
        log.report(now == null ? null : text(now), nowMs.getAsLong());
    }

    /** An error as a line for an operator: the plugin's own say it all without the name of their class. */
    private static String text(Throwable error) {
        return error.getClass() == KafkaException.class ? error.getMessage() : error.toString();
    }

    private boolean isStopped() {
        return stop.getCount() == 0;
    }

    /** Delivers what it can within the bound; whatever is then left is dropped and counted. */
    private void end() {
        Thread.interrupted();
        stop.countDown();
        boolean isHopeful = producer.get() != null && failure.get() == null;
        long deadlineMs = nowMs.getAsLong() + (isHopeful ? closeTimeoutMs : 0);
        try {
            if (isHopeful) {
                drain(deadlineMs);
            }
        } finally {
            closeProducer(Math.max(0, deadlineMs - nowMs.getAsLong()));
            topic.close();
            for (PendingPush push = buffer.poll(); push != null; push = buffer.poll()) {
                buffer.release(push.bytes);
                counters.addDropped(DropCause.CLOSED);
            }
            log.closed();
        }
    }

    private void drain(long deadlineMs) {
        PendingPush push = buffer.poll();
        while (push != null && produce(push) == null && nowMs.getAsLong() < deadlineMs) {
            push = buffer.poll();
        }
    }

    private void closeProducer(long timeoutMs) {
        Producer<byte[], byte[]> closing = producer.getAndSet(null);
        if (closing == null) {
            return;
        }
        try {
            closing.close(Duration.ofMillis(timeoutMs));
        } catch (RuntimeException e) { // an interrupt, or a metrics reporter of the producer
            counters.setLastError(e);
        }
    }
}

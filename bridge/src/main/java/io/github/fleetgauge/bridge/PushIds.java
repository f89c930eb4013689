package io.github.fleetgauge.bridge;

import java.security.SecureRandom;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Makes push ids of 32 hex digits, sortable by time of receipt and unique: received [us] (16), writer (8, random at
 * each start), sequence (8). The same form as {@code telemetry.push_record.PushIds}.
 *
 * <p>{@code new PushIds(0xABCD1234).next(1_700_000_000_000_000L)} is {@code 00060a24181e4000abcd123400000000}.
 */
final class PushIds {

    private static final char[] HEX = "0123456789abcdef".toCharArray();

    private final int writer;
    private final AtomicInteger sequence = new AtomicInteger();

    PushIds() {
        this(new SecureRandom().nextInt());
    }

    PushIds(int writer) {
        this.writer = writer;
    }

    /** The id of the next push, received at {@code receivedAtUs} [us since the epoch]. */
    String next(long receivedAtUs) {
        char[] digits = new char[32];
        hex(receivedAtUs, digits, 0, 16);
        hex(writer, digits, 16, 8);
        hex(sequence.getAndIncrement(), digits, 24, 8);
        return new String(digits);
    }

    private static void hex(long value, char[] into, int from, int length) {
        for (int position = from + length - 1; position >= from; position--) {
            into[position] = HEX[(int) (value & 0xF)];
            value >>>= 4;
        }
    }
}

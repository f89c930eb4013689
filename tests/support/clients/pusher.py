"""A raw client outside our code that pushes for very many instances, and notes which pushes it saw answered NONE."""

import struct
import threading
import uuid

from support.clients.raw_client import RawClient, get_request, parse_get, parse_push, push_request
from support.payloads.payloads import metrics_data
from support.waiting import PATIENCE_S, pause

from fleetgauge.telemetry.push_record import format_instance_id

PIPELINED = 20


class Pusher(threading.Thread):
    """Pushes once for each of many instances, pipelined, through every restart; notes what was acknowledged.

    `cut_off` counts the connections, and tries to connect, that failed. `pause_s` is between two times twenty pushes:
    so a crowd of some size lasts for some time. `payload` is what each pushes; some gauges when None.
    """

    def __init__(self, port: int, pushes: int, pause_s: float = 0.0, payload: bytes | None = None) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.left = pushes
        self.pause_s = pause_s
        self.acknowledged: set[str] = set()
        self.other_answers = 0
        self.cut_off = 0
        self.payload = metrics_data() if payload is None else payload

    def run(self) -> None:
        while self.left > 0:
            try:
                with RawClient(self.port, timeout_s=PATIENCE_S) as client:
                    while self.left > 0:
                        self.push_some(client, min(PIPELINED, self.left))
                        pause(self.pause_s, "a crowd of some size lasts for some time")
            except OSError:
                self.cut_off += 1
                pause(0.02, "a node that was killed is not back at once")

    def push_some(self, client: RawClient, number: int) -> None:
        instances = [uuid.uuid4() for _ in range(number)]
        client.send(b"".join(get_request(i, instance) for i, instance in enumerate(instances)))
        subscriptions = [parse_get(client.receive_frame()[5:]) for _ in instances]
        client.send(
            b"".join(
                push_request(i, instance, subscription.subscription_id, self.payload)
                for i, (instance, subscription) in enumerate(zip(instances, subscriptions, strict=True))
            )
        )
        self.left -= number
        for _ in instances:
            frame = client.receive_frame()
            (correlation_id,) = struct.unpack_from(">i", frame)
            if parse_push(frame[5:]).error_code == 0:
                self.acknowledged.add(format_instance_id(instances[correlation_id]))
            else:
                self.other_answers += 1

"""Where Fleetgauge answers otherwise than Kafka's broker, on purpose: each difference has its rule, and no other.

Both sides have to answer the same. Where they do not, a rule must say so beforehand, with what each side answers, and
both are held to it. Most rules are about one answer. The others leave something behind in which the two sides differ
from then on (a turn used, a client locked out): `Facts` is what a side holds of a client, as far as such rules reach.
It is only consulted where the two sides' facts differ; where they agree, the answers are compared with each other.
"""

import uuid
from collections import Counter
from dataclasses import dataclass, field, fields

from crc32c import crc32c
from support.differential.pair import SIDES, Content
from support.differential.runner import CLOSED, Answer, Exchange
from support.differential.traces import (
    Edit,
    Get,
    GetNull,
    GetReserved,
    Push,
    PushNull,
    PushReserved,
    Reconnect,
    Trace,
    Wait,
)

NONE, INVALID_REQUEST, UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD = 0, 42, 76, 87
THROTTLED, UNKNOWN_SUBSCRIPTION_ID, TOO_LARGE = 89, 117, 118
_CURED_BY_GET = frozenset({UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE})
_COSTS_NOTHING = _CURED_BY_GET | {TOO_LARGE}


@dataclass(frozen=True)
class Rule:
    """One difference: what Kafka 4.3.1 does, what we do, and why."""

    name: str
    kafka: str
    ours: str
    why: str


# Rules about one answer.

ECHOED_ID = Rule(
    "a throttled Get names the client",
    "answers 89 with the zero id",
    "answers 89 with the id that was asked for",
    "the Java client throws on a zero id",
)
KNOWN_ID = Rule(
    "a null id on a connection with a known client",
    "gives a new id, and so lets a client through that does not keep its id",
    "gives the id that the connection has, and gates it",
    "a client that asks twice is one client",
)
RESERVED_ID = Rule(
    "the reserved id 1 in a Get",
    "takes it as a client's id, one for all that send it, whose every push is then refused with 42",
    "gives a new id, as for the null id",
    "an id under which a client cannot push does it no good",
)
NULL_PAYLOAD = Rule(
    "NULL for metrics",
    "closes the connection",
    "takes it for an empty payload, a heartbeat",
    "librdkafka before 2.10.1 sends it, and would lose its connection",
)
LARGE_DECOMPRESSED = Rule(
    "more than telemetry.max.bytes when decompressed",
    "INVALID_RECORD, and the client switches its telemetry off",
    "accepts up to telemetry.max.decompressed.bytes",
    "real payloads compress 10 to 25 times; the client was told of the compressed size only",
)
BOMB = Rule(
    "a decompression bomb",
    "INVALID_RECORD",
    "TELEMETRY_TOO_LARGE",
    "the code for what is too large; it does not switch a client off",
)
LONG_INTERVAL = Rule(
    "an interval above five minutes",
    "hands out 300000",
    "hands out what is configured",
    "five minutes is the default where nothing matches, not a ceiling",
)
SORTED_PREFIXES = Rule(
    "several prefixes",
    "lists them, and makes the subscription id of them, in the order of a Java HashSet",
    "sorted",
    "the same subscription has the same id on every node and in every version",
)
ALL_FOR_FRANZ_GO = Rule(
    "all metrics for franz-go",
    "asks for `*`",
    "asks for the empty prefix",
    "franz-go takes `*` for a prefix, which matches nothing",
)

# Rules that leave something behind.

TURN_GIVEN_BACK = Rule(
    "a push refused with 117, 76 or 118 keeps its turn",
    "counts it as the interval's push: the next one is 89",
    "the next one is judged as if it were the first",
    "the client corrects itself at once, not after an interval of silence",
)
GET_COUNTS = Rule(
    "a Get after UNKNOWN_SUBSCRIPTION_ID or UNSUPPORTED_COMPRESSION_TYPE",
    "is answered, but not noted: the push after it is 89",
    "is answered, and the push after it is due",
    "at intervals of five minutes a subscription change would cost up to 17 minutes of silence",
)
REFUSED_TERMINATING = Rule(
    "a refused terminating push is not the last",
    "locks the client out: the corrected one is 42",
    "judges the corrected one",
    "the last metrics of a client are the ones that explain its end",
)
STAYS_TERMINATED = Rule(
    "after an accepted terminating push",
    "refuses one push with 42, and is open again",
    "refuses every further push on that connection with 42",
    "KIP-714: the terminating push is the last",
)
EARLY_END = Rule(
    "a further terminating push before its time",
    "accepts it, on whatever connection, but for one after each that it accepted",
    "answers 89: one is accepted for each instance and subscription",
    "KIP-714: one may be sent without waiting, others are throttled like ordinary pushes",
)
OTHER_CONNECTION = Rule(
    "several connections under one id",
    "judges them together: a push, a Get or the end on one counts on all",
    "judges each by its own times, after its first interval",
    "an id is no secret: another connection under it must not mute or starve a client",
)
OLD_CONNECTION = Rule(
    "the end of the connection on which a client was first seen (after an edit: seen next)",
    "forgets the client, though it lives on another connection",
    "forgets a client with its last connection",
    "newer clients Get on one connection and push on another",
)
OTHERS_ON_CONNECTION = Rule(
    "the end of a connection with several clients",
    "forgets the one that came last, keeps the others until they expire",
    "forgets all that have no other connection",
    "nothing of a client that is gone should stay",
)
BYSTANDERS = Rule(
    "an edit of a subscription that does not match a client",
    "resets its gate, its errors and `terminating`",
    "leaves it alone",
    "an edit for one team opens no gate for all others",
)
EDITED = Rule(
    "an edit of a client's own subscription",
    "makes a new client of it, also of a terminated one",
    "opens the gate; a terminated connection stays so, an error that a Get cures is kept",
    "KIP-714: the terminating push is the last",
)

RULES = tuple(value for value in globals().values() if isinstance(value, Rule))

_PAYLOAD_RULES: dict[str, tuple[Rule, int, int]] = {
    "large-decompressed": (LARGE_DECOMPRESSED, INVALID_RECORD, NONE),
    "bomb": (BOMB, INVALID_RECORD, TOO_LARGE),
}
"""By kind of payload: the rule, Kafka's answer, ours."""

_SAME_FOR_BOTH = {
    "unknown-codec": UNSUPPORTED_COMPRESSION_TYPE,
    "too-large": TOO_LARGE,
    "broken": INVALID_RECORD,
    "unended": INVALID_RECORD,
}
"""What both answer when only one of them has come so far; NONE for other payloads."""

_GROUP_RULES: dict[str, tuple[Rule, frozenset[str]]] = {
    "hour": (LONG_INTERVAL, frozenset({"push_interval_ms", "checksum"})),
    "several": (SORTED_PREFIXES, frozenset({"requested_metrics", "checksum"})),
    "kgo": (ALL_FOR_FRANZ_GO, frozenset({"requested_metrics"})),
}
"""By group: the rule and the fields in which the two sides' answered Gets differ."""


@dataclass(slots=True)
class Facts:
    """What a side holds of a client, as far as rules that leave something behind reach."""

    asked: bool = False
    """A Get was noted in this interval."""
    pushed: bool = False
    """A push used the turn of this interval."""
    owed: bool = False
    """A Get was noted that no push followed yet."""
    cured_by_get: bool = False
    """The last push was refused with what a Get cures."""
    terminated: bool = False
    ended: bool = False
    """A terminating push was accepted in this interval, so that no other may come early."""

    def refusal(self, step: Get | GetNull | Push) -> int | None:
        """The code with which the gate refuses `step`, or None."""
        if not isinstance(step, Push):
            return THROTTLED if (self.asked or self.pushed) and not self.cured_by_get else None
        if self.terminated:
            return INVALID_REQUEST
        may_be_early = step.terminating and not self.ended
        return THROTTLED if self.pushed and not self.owed and not may_be_early else None


@dataclass(slots=True)
class Times:
    """When the latest Get and push on a connection, or on any, used a turn; None if none did."""

    asked: bool | None = None
    """True in this interval, False in one before."""
    pushed: bool | None = None
    terminated: bool = False


@dataclass(slots=True)
class Ours:
    """What we hold of a client: of each of its connections, and of all."""

    connections: dict[int, Times] = field(default_factory=dict)
    latest: Times = field(default_factory=Times)
    owed: bool = False
    cured_by_get: bool = False
    ended: bool = False
    cure_opens: bool = True
    """The latest push was due, so that a Get that cures its error makes the next one due."""

    def facts(self, connection: int) -> Facts:
        """What holds on one connection: until its first Get and push, those of others count."""
        own, latest = self.connections.setdefault(connection, Times()), self.latest
        return Facts(
            asked=bool(latest.asked if own.asked is None else own.asked),
            pushed=bool(latest.pushed if own.pushed is None else own.pushed),
            owed=self.owed,
            cured_by_get=self.cured_by_get,
            terminated=own.terminated,
            ended=self.ended,
        )

    def get(self, connection: int, error: int | str) -> None:
        """A Get was answered."""
        if error == NONE:
            self.connections[connection].asked = self.latest.asked = True
            self.owed |= self.cure_opens or not self.cured_by_get
        else:
            self._early(connection)
        self.cured_by_get = False

    def push(self, connection: int, error: int | str, *, terminating: bool) -> None:
        """A push was answered."""
        before = self.facts(connection)
        self.cured_by_get = error in _CURED_BY_GET
        if error not in (THROTTLED, INVALID_REQUEST):
            self.cure_opens = before.owed or not before.pushed
        if error == THROTTLED:
            self._early(connection)
        elif error != INVALID_REQUEST and error not in _COSTS_NOTHING:
            own = self.connections[connection]
            own.pushed = self.latest.pushed = True
            own.terminated = terminating and error == NONE
            self.ended |= own.terminated
            self.owed = False

    def wait(self) -> None:
        """An interval passes."""
        self.ended = False
        for each in (self.latest, *self.connections.values()):
            each.asked = None if each.asked is None else False
            each.pushed = None if each.pushed is None else False

    def reopen(self) -> None:
        """The client is asked for something else."""
        self.ended = False
        for each in (self.latest, *self.connections.values()):
            each.asked = each.pushed = None

    def _early(self, connection: int) -> None:
        own = self.connections[connection]
        own.asked = self.latest.asked if own.asked is None else own.asked
        own.pushed = self.latest.pushed if own.pushed is None else own.pushed


@dataclass(slots=True)
class Client:
    """Both sides' facts of a client; `causes` has the rule by which they differ in a fact."""

    facts: dict[str, Facts] = field(default_factory=lambda: {side: Facts() for side in SIDES})
    causes: dict[str, Rule] = field(default_factory=dict)
    ours: Ours = field(default_factory=Ours)

    def enter(self, connection: int) -> None:
        """The next step is on that connection."""
        self.facts["ours"] = self.ours.facts(connection)
        self.set_apart({**dict.fromkeys((each.name for each in fields(Facts)), OTHER_CONNECTION), "ended": EARLY_END})

    def cause(self, step: Get | GetNull | Push) -> Rule | None:
        """The rule by which the two sides' gates differ on `step`."""
        names = ("cured_by_get", "pushed", "asked")
        if isinstance(step, Push):
            names = ("terminated", *(("ended",) if step.terminating else ()), "owed", "pushed")
        return next((self.causes[name] for name in names if name in self.causes), None)

    def set_apart(self, causes: dict[str, Rule]) -> None:
        """Notes in what the two sides differ now; `causes` has the rule for what was the same before."""
        for name in (each.name for each in fields(Facts)):
            kafka, ours = (getattr(self.facts[side], name) for side in SIDES)
            if kafka == ours:
                self.causes.pop(name, None)
            elif name in causes:
                self.causes.setdefault(name, causes[name])


def note_get(facts: Facts, error: int | str) -> None:
    """Kafka answered a Get."""
    if error == NONE:
        if not (facts.asked or facts.pushed):
            facts.asked = facts.owed = True
        facts.cured_by_get = False


def note_push(facts: Facts, error: int | str, *, terminating: bool) -> None:
    """Kafka answered a push."""
    facts.cured_by_get = error in _CURED_BY_GET
    if not facts.terminated and (facts.owed or not facts.pushed):
        facts.pushed, facts.owed = True, False
    facts.terminated = terminating


class Judge:
    """Holds the answers of one trace against each other, exchange by exchange.

    Attributes:
        problems: what no rule explains, with the position of the exchange.
        fired: how often each rule explained something.
    """

    def __init__(self, trace: Trace) -> None:
        self.problems: list[tuple[int, str]] = []
        self.fired: Counter[str] = Counter()
        self._trace = trace
        self._clients: dict[str, Client] = {}
        # Kafka ties to a connection the client that it came to know there last (after an edit it comes to know all
        # anew); we tie all that were seen on it.
        self._kafka_known: set[str] = set()
        self._kafka_tied: dict[int, str] = {}
        self._ours_tied: dict[int, dict[str, None]] = {}
        self._position = 0

    def judge(self, exchanges: list[Exchange]) -> None:
        """Goes through all of a trace."""
        for self._position, exchange in enumerate(exchanges):
            self._throttle_times(exchange)
            match exchange.step:
                case Get() | Push():
                    self._get_or_push(exchange)
                case GetNull():
                    self._get_null(exchange)
                case GetReserved():
                    self._get_reserved(exchange)
                case PushReserved():
                    self._same_error(exchange)
                case PushNull():
                    self._explained(exchange, NULL_PAYLOAD, CLOSED, NONE)
                case Reconnect(connection=connection):
                    self._end_connection(connection)
                case Wait():
                    self._wait()
                case Edit():
                    self._edit()

    # What is asserted

    def _problem(self, text: str) -> None:
        self.problems.append((self._position, text))

    def _fire(self, rule: Rule) -> None:
        self.fired[rule.name] += 1

    def _throttle_times(self, exchange: Exchange) -> None:
        for side, answer in exchange.answers.items():
            if answer.throttle_time_ms:
                self._problem(f"{side} answers throttle_time_ms {answer.throttle_time_ms}")

    def _same_error(self, exchange: Exchange) -> None:
        kafka, ours = (exchange.answers[side].error for side in SIDES)
        if kafka != ours:
            self._problem(f"Kafka answers {kafka}, we {ours}, and no rule says so")

    def _explained(self, exchange: Exchange, rule: Rule | None, kafka: int | str, ours: int | str) -> None:
        """Holds both sides to what `rule` says."""
        answered = tuple(exchange.answers[side].error for side in SIDES)
        if rule is None:
            self._problem(f"the sides differ by no rule: {answered}")
        elif answered != (kafka, ours):
            self._problem(f"Kafka and we answer {answered}, and by the rule '{rule.name}' {(kafka, ours)}")
        else:
            self._fire(rule)

    # Requests

    def _get_or_push(self, exchange: Exchange) -> None:
        step = exchange.step
        assert isinstance(step, Get | Push)
        client = self._seen(exchange.slot, step.connection)
        rule = self._compare(exchange, step, client)
        if isinstance(step, Get):
            for side in SIDES:
                self._get_answer(side, exchange, exchange.asked[side])
        self._note(client, step, exchange, rule)

    def _compare(self, exchange: Exchange, step: Get | Push, client: Client) -> Rule | None:
        """Compares the error codes; returns the rule by which they differ."""
        kafka, ours = (client.facts[side].refusal(step) for side in SIDES)
        if kafka != ours:
            rule = client.cause(step)
            self._explained(
                exchange,
                rule,
                _verdict(exchange, "kafka") if kafka is None else kafka,
                _verdict(exchange, "ours") if ours is None else ours,
            )
            return rule
        payload_rule = _payload_rule(exchange)
        if kafka is None and payload_rule is not None:
            self._explained(exchange, *payload_rule)
            return payload_rule[0]
        self._same_error(exchange)
        return None

    def _note(self, client: Client, step: Get | Push, exchange: Exchange, rule: Rule | None) -> None:
        was_terminated = client.facts["kafka"].terminated
        kafka, ours = (exchange.answers[side].error for side in SIDES)
        if isinstance(step, Push):
            note_push(client.facts["kafka"], kafka, terminating=step.terminating)
            client.ours.push(step.connection, ours, terminating=step.terminating)
        else:
            note_get(client.facts["kafka"], kafka)
            client.ours.get(step.connection, ours)
        client.facts["ours"] = client.ours.facts(step.connection)
        if rule is not None:
            causes = dict.fromkeys((each.name for each in fields(Facts)), rule)
        elif isinstance(step, Get):
            causes = {"asked": GET_COUNTS, "owed": GET_COUNTS}
        else:
            causes = {"pushed": TURN_GIVEN_BACK, "owed": TURN_GIVEN_BACK}
            causes["ended"] = EARLY_END
            causes["terminated"] = STAYS_TERMINATED if was_terminated else REFUSED_TERMINATING
        client.set_apart(causes)

    def _get_answer(self, side: str, exchange: Exchange, asked: uuid.UUID) -> None:
        """An answered Get says what every client of the group is told, under the client's id; a refused one nothing."""
        answer = exchange.answers[side]
        if answer.error != NONE:
            self._refused_get(side, answer, asked)
            return
        if answer.instance_id != asked:
            self._problem(f"{side} answers {asked} with the id {answer.instance_id}")
        self._told(side, exchange)

    def _refused_get(self, side: str, answer: Answer, asked: uuid.UUID) -> None:
        if not answer.blank:
            self._problem(f"{side} fills in a refused Get")
        if answer.instance_id != (asked if side == "ours" else uuid.UUID(int=0)):
            self._problem(f"{side} answers a refused Get of {asked} with {answer.instance_id}")
        elif side == "ours":
            self._fire(ECHOED_ID)

    def _told(self, side: str, exchange: Exchange) -> None:
        if exchange.answers[side].content != exchange.reference[side]:
            self._problem(f"{side} answers {exchange.answers[side].content}, and others {exchange.reference[side]}")
        if side == "ours":
            problem, rule = content_difference(self._trace.group.name, exchange.reference)
            if problem:
                self._problem(problem)
            elif rule is not None:
                self._fire(rule)

    def _get_null(self, exchange: Exchange) -> None:
        step = exchange.step
        assert isinstance(step, GetNull)
        known = [
            slot
            for slot in self._ours_tied.get(step.connection, {})
            if not self._clients[slot].ours.facts(step.connection).terminated
        ]
        if not known:
            self._new_id(exchange, step)
            return
        client = self._clients[known[-1]]
        client.enter(step.connection)
        refusal = client.facts["ours"].refusal(step)
        self._explained(exchange, KNOWN_ID, NONE, NONE if refusal is None else refusal)
        if exchange.slot != known[-1]:
            self._problem(f"we answer a null id with that of {exchange.slot}, and the connection's is {known[-1]}")
        self._kafka_tied[step.connection] = "nobody"
        self._told("kafka", exchange)
        client.ours.get(step.connection, NONE if refusal is None else refusal)
        client.facts["ours"] = client.ours.facts(step.connection)
        if refusal is None:
            self._told("ours", exchange)
            client.set_apart(dict.fromkeys((each.name for each in fields(Facts)), KNOWN_ID))

    def _new_id(self, exchange: Exchange, step: GetNull) -> None:
        client = self._seen(exchange.slot, step.connection)
        self._same_error(exchange)
        for side in SIDES:
            if exchange.answers[side].error != NONE:
                self._problem(f"{side} refuses a Get of a new client")
            self._told(side, exchange)
        note_get(client.facts["kafka"], NONE)
        client.ours.get(step.connection, NONE)
        client.facts["ours"] = client.ours.facts(step.connection)

    def _get_reserved(self, exchange: Exchange) -> None:
        kafka, ours = (exchange.answers[side] for side in SIDES)
        # For Kafka all traces are this one client.
        self._explained(exchange, RESERVED_ID, THROTTLED if kafka.error == THROTTLED else NONE, NONE)
        if kafka.error == NONE and kafka.instance_id != uuid.UUID(int=1):
            self._problem(f"Kafka answers the id 1 with {kafka.instance_id}")
        if ours.instance_id is None or ours.instance_id.int in (0, 1):
            self._problem(f"we answer the id 1 with {ours.instance_id}")
        self._told("ours", exchange)

    # What happens to clients

    def _seen(self, slot: str, connection: int) -> Client:
        client = self._clients.setdefault(slot, Client())
        if slot not in self._kafka_known:
            self._kafka_known.add(slot)
            self._kafka_tied[connection] = slot
        self._ours_tied.setdefault(connection, {})[slot] = None
        client.enter(connection)
        return client

    def _end_connection(self, connection: int) -> None:
        kafka_forgets = {self._kafka_tied.pop(connection, "nobody")} - {"nobody"}
        ended = self._ours_tied.pop(connection, {})
        ours_forgets = {slot for slot in ended if not any(slot in tied for tied in self._ours_tied.values())}
        self._kafka_known -= kafka_forgets
        for slot in kafka_forgets:
            self._clients[slot].facts["kafka"] = Facts()
        for slot in ended:
            self._clients[slot].ours.connections.pop(connection, None)
        for slot in ours_forgets:
            self._clients[slot].ours = Ours()
            self._clients[slot].facts["ours"] = Facts()
        for slot in kafka_forgets | ours_forgets:
            rule = OLD_CONNECTION if slot in kafka_forgets else OTHERS_ON_CONNECTION
            self._clients[slot].set_apart(dict.fromkeys((each.name for each in fields(Facts)), rule))

    def _wait(self) -> None:
        for client in self._clients.values():
            for facts in client.facts.values():
                facts.asked = facts.pushed = False
            client.ours.wait()
            client.set_apart({})

    def _edit(self) -> None:
        edited = self._trace.group.name == "edited"
        self._kafka_known.clear()
        for client in self._clients.values():
            client.facts["kafka"] = Facts()
            if edited:
                client.facts["ours"].asked = client.facts["ours"].pushed = False
                client.ours.reopen()
            rule = EDITED if edited else BYSTANDERS
            client.set_apart(dict.fromkeys((each.name for each in fields(Facts)), rule))


def _verdict(exchange: Exchange, side: str) -> int:
    """What `side` answers when its gate lets a Get or a push through."""
    step = exchange.step
    if not isinstance(step, Push):
        return NONE
    if not exchange.right_id:
        return UNKNOWN_SUBSCRIPTION_ID
    rule = _payload_rule(exchange)
    if rule is not None:
        _, kafka, ours = rule
        return kafka if side == "kafka" else ours
    return _SAME_FOR_BOTH.get(step.payload.partition(":")[0], NONE)


def _payload_rule(exchange: Exchange) -> tuple[Rule, int, int] | None:
    if not isinstance(exchange.step, Push) or not exchange.right_id:
        return None
    return _PAYLOAD_RULES.get(exchange.step.payload.partition(":")[0])


def content_difference(group: str, contents: dict[str, Content]) -> tuple[str, Rule | None]:
    """How what the two sides tell a client differs: what no rule explains, and the rule of the group."""
    kafka, ours = (contents[side] for side in SIDES)
    differing = {each.name for each in fields(Content) if getattr(kafka, each.name) != getattr(ours, each.name)}
    rule, allowed = _GROUP_RULES.get(group, (None, frozenset[str]()))
    if differing != allowed or not _as_the_rule_says(group, kafka, ours):
        return f"the sides differ in {sorted(differing)}: {kafka}, {ours}", rule
    for side, content in contents.items():
        if content.checksum != _checksum(group, content):
            return f"{side} makes its subscription id of something else than what it asks for: {content}", rule
    return "", rule


def _as_the_rule_says(group: str, kafka: Content, ours: Content) -> bool:
    """Both sides' values in what a group's rule is about."""
    match group:
        case "hour":
            return (kafka.push_interval_ms, ours.push_interval_ms) == (300_000, 3_600_000)
        case "several":
            return tuple(sorted(kafka.requested_metrics)) == ours.requested_metrics
        case "kgo":
            return (kafka.requested_metrics, ours.requested_metrics) == (("*",), ("",))
    return True


def _checksum(group: str, content: Content) -> int:
    """What the subscription id is made of: the prefixes in the order in which they are listed, and the interval."""
    listed = ("*",) if group == "kgo" else content.requested_metrics
    return crc32c(f"[{', '.join(listed)}]{content.push_interval_ms}".encode())

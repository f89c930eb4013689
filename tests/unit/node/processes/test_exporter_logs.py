"""The exporter process's log: its readers and its upkeep know of each other."""

from contextlib import closing
from pathlib import Path

import pytest
from support.programs.push_log import RecordWriter, at_once, poll, poll_all, push_record, small_log

from fleetgauge.base.clock import MockTime
from fleetgauge.node.data_dir import LogPlace
from fleetgauge.node.processes.exporter_logs import TopicLog, exporter_log
from fleetgauge.push_log.kafka_topic.group_member import GroupMember
from fleetgauge.push_log.kafka_topic.reader import KafkaTopicReader
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings


@pytest.mark.parametrize("several", [False, True])
def test_a_batch_that_is_on_its_way_when_its_segment_goes_and_arrives_is_not_told_as_lost(
    tmp_path: Path, several: bool
) -> None:
    time = MockTime()
    settings = small_log(tmp_path / "one", retention_bytes=70_000)
    places = [LogPlace(name="one", dir=settings.dir, is_abandoned=False)] if several else []
    log = exporter_log(settings, ("otlp",), time, places)
    with (
        closing(RecordWriter(settings, time, spawn=at_once)) as writer,
        closing(log.reader("otlp")) as reader,
    ):
        for number in range(100):
            writer.append(push_record(number))
            writer.commit()
        on_its_way = poll(reader, max_records=20)
        assert on_its_way is not None
        log.keep(time.hi_res_clock_ms())
        lost = log.status({})[1]["otlp"]["lost"]["retention"]
        assert 0 < lost < 100 - 20
        reader.commit(on_its_way)
        arrived = 20 + len(poll_all(reader))
        cursor = log.status({})[1]["otlp"]
        assert cursor["lag_records"] == 0
        assert cursor["lost"] == {"retention": lost, "damage": 0}
        assert lost == 100 - arrived


AWAY = KafkaTopicSettings(bootstrap_servers="127.0.0.1:1", topic="pushes", group_prefix="g")


@pytest.mark.slow
def test_a_topic_that_one_exporter_reads_has_no_problem_for_another_that_cannot_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(GroupMember, "problem", None)
    log = TopicLog(AWAY, MockTime())
    with closing(log.reader("page")) as page, closing(log.reader("otlp")) as otlp:
        otlp.poll(1, 1, 0)
        assert isinstance(otlp, KafkaTopicReader)
        otlp.member.has_reached_topic = True
        assert log.status({"page": "start: port taken"})[0]["problem"] is None
        page.poll(1, 1, 0)
        assert log.status({})[0]["problem"] == "topic pushes has not been reached yet"


def test_where_no_exporter_can_start_the_reason_is_theirs_and_not_the_topics() -> None:
    log = TopicLog(AWAY, MockTime())
    with closing(log.reader("page")), closing(log.reader("otlp")):
        problem = log.status({"page": "start: port taken", "otlp": None})[0]["problem"]
    assert problem == "no exporter has started to read topic pushes; page: start: port taken"

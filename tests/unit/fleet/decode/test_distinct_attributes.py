from fleetgauge.fleet.decode.attributes import DistinctMaps, TextMap


def test_equal_maps_have_one_number_and_others_another() -> None:
    found: list[TextMap] = [{"a": "1"}, {}, {"a": "1", "b": None}, {"b": None, "a": "1"}, {"a": "1"}, {}, {"a": None}]
    distinct = DistinctMaps()
    numbers = [distinct.number(each) for each in found]
    assert [list(distinct.maps[number].items()) for number in numbers] == [list(each.items()) for each in found]
    assert len(distinct.maps) == 5

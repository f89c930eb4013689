import pyarrow as pa

from fleet.decode.attributes import distinct_lists

LISTS = pa.list_(pa.binary())


def test_equal_lists_have_one_number_and_others_another() -> None:
    lists = [[b"x"], [], [b"x", b"y"], [b"y", b"x"], [b"x"], []]
    numbers, distinct = distinct_lists(pa.array(lists, LISTS))
    assert [distinct[number] for number in numbers] == lists
    assert len(distinct) == 4


def test_long_lists_that_differ_in_their_first_item_alone_stay_apart() -> None:
    """With three items a position is a factor of 4: after 32 of them the first has left 64 bits."""
    lists = [[b"x"] + [b"z"] * 40, [b"y"] + [b"z"] * 40, [b"z"] * 41]
    numbers, distinct = distinct_lists(pa.array(lists, LISTS))
    assert [distinct[number] for number in numbers] == lists


def test_no_lists_have_no_numbers() -> None:
    numbers, distinct = distinct_lists(pa.array([], LISTS))
    assert (numbers.tolist(), distinct) == ([], [])

"""How repetitions are given out to devices."""

import pytest
from gpu_rsfd.backends.cuda.work import Work


def taken(work, most):
    while share := work.take(most):
        yield share


@pytest.mark.parametrize("devices,least,most", [(1, 1, 4), (2, 1, 100), (3, 5, 7), (2, 100, 3), (5, 1, 1)])
def test_every_repetition_is_taken_once(devices, least, most):
    work = Work(3, 60, devices, least)
    shares = list(taken(work, most))
    assert sorted(i for first, last in shares for i in range(first, last)) == list(range(3, 60))
    assert all(0 < last - first <= most for first, last in shares)
    assert work.done


def test_one_device_takes_as_much_as_it_can():
    assert list(taken(Work(0, 10), 4)) == [(0, 4), (4, 8), (8, 10)]
    assert list(taken(Work(0, 10), 100)) == [(0, 10)]


def test_parts_get_smaller_so_that_nobody_waits_for_a_slow_device():
    """A slow device holds at most a quarter of what was left when it asked."""
    shares = [last - first for first, last in taken(Work(0, 100, devices=2), 1000)]
    assert shares[0] == 25
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == 1


def test_a_part_is_worth_the_trouble():
    assert [last - first for first, last in taken(Work(0, 100, devices=2, least=30), 1000)] == [30, 30, 30, 10]


def test_what_is_given_back_is_taken_again():
    work = Work(0, 10)
    share = work.take(4)
    work.give_back(*share)
    assert sorted(taken(work, 3)) == [(0, 3), (3, 4), (4, 7), (7, 10)]


def test_stop():
    work = Work(0, 10)
    assert work.take(4) == (0, 4)
    work.stop()
    assert work.done
    assert work.take(4) is None


def test_nothing_to_do():
    assert Work(5, 5).take(1) is None
    assert Work(5, 5).done

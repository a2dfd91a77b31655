"""Work in threads: results in order, errors passed on, the setting of the matrix products put back."""

import threading
import time

import pytest
import torch
from threadpoolctl import threadpool_info

from labkit.threads import in_threads


def product_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_results_come_in_the_order_of_the_items(two_threads):
    def work(item):
        time.sleep(0.01 * (item == 0))
        return item * item

    assert in_threads(work, range(7)) == [0, 1, 4, 9, 16, 25, 36]
    assert in_threads(work, []) == []


def test_work_is_shared_and_its_products_run_on_one_thread_each(two_threads):
    meet = threading.Barrier(2, timeout=20)

    def work(_):
        meet.wait()  # passed only if two items are at work at the same time
        return set(product_threads())

    before = product_threads()
    assert in_threads(work, [0, 1]) == [{1}, {1}]
    assert product_threads() == before


def test_one_thread_works_in_the_caller():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert set(in_threads(lambda _: threading.current_thread(), range(3))) == {threading.current_thread()}
    finally:
        torch.set_num_threads(before)


def test_an_error_is_passed_on_and_the_setting_put_back(two_threads):
    def work(item):
        raise ZeroDivisionError(item)

    before = product_threads()
    with pytest.raises(ZeroDivisionError):
        in_threads(work, [1, 2, 3])
    assert product_threads() == before


def test_two_callers_at_once_put_the_setting_back(two_threads):
    before = product_threads()
    callers = [threading.Thread(target=in_threads, args=(lambda _, wait=i: time.sleep(0.005 * wait), range(4))) for i in (1, 3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert product_threads() == before

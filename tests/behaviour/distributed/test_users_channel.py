"""What channels of users return is checked, and named with the channel."""

from __future__ import annotations

import pytest
import torch

import headrace as hr


class Alone(hr.Comm):
    """The channel of a job of one rank."""

    def _all_to_all(self, sent, received, send_counts, receive_counts, meanwhile):
        meanwhile()
        received.copy_(sent)

    def _all_reduce_sum(self, values):
        return values.clone()

    def channel(self):
        return type(self)(self.rank, self.world_size)

    def fail(self, reason, *, blames=False): ...

    def begin(self): ...

    def refuse(self, reason): ...


def own(**methods: object) -> hr.Comm:
    return type("Own", (Alone,), methods)(0, 1)


def test_a_channel_that_does_as_it_should():
    comm = own()
    rows, read = torch.arange(6).view(3, 2), []
    assert torch.equal(comm.all_to_all(rows, [3], [3], meanwhile=lambda: read.append(1)), rows)
    assert read == [1]
    assert torch.equal(comm.all_reduce_sum(torch.ones(2)), torch.ones(2))
    assert comm.channel().rank == 0


@pytest.mark.parametrize(("num_calls", "got"), [(0, "0 calls"), (2, "2 calls")])
def test_the_work_meanwhile_is_done_once(num_calls, got):
    def all_to_all(self, sent, received, send_counts, receive_counts, meanwhile):
        received.copy_(sent)
        for _ in range(num_calls):
            meanwhile()

    with pytest.raises(hr.PlanError, match=f"Own._all_to_all to call meanwhile once, .* got {got}"):
        own(_all_to_all=all_to_all).all_to_all(torch.ones(2, 1), [2], [2], meanwhile=lambda: None)


@pytest.mark.parametrize("summed", [lambda values: None, lambda values: values.double(), lambda values: values[:1]])
def test_a_sum_is_like_what_is_summed(summed):
    comm = own(_all_reduce_sum=lambda self, values: summed(values))
    with pytest.raises(hr.PlanError, match=r"Own._all_reduce_sum to return the sum over ranks as float32\[2\], got"):
        comm.all_reduce_sum(torch.ones(2))


@pytest.mark.parametrize("another", [lambda: None, lambda: Alone(0, 3), lambda: Alone(1, 1)])
def test_a_further_channel_is_between_the_same_ranks(another):
    comm = own(channel=lambda self: another())
    with pytest.raises(hr.PlanError, match=r"Own.channel to return another hr.Comm of rank 0 of 1, got"):
        comm.channel()


@pytest.mark.parametrize(
    ("comm", "match"),
    [
        (lambda: Alone(2, 1), "comm.rank to be an integer from 0 to 0, got 2"),
        (lambda: Alone("0", 1), "comm.rank to be an integer from 0 to 0, got '0'"),
        (lambda: Alone(0, 0), "comm.world_size to be an integer of at least 1, got 0"),
        (lambda: own(__init__=lambda self, rank, world_size: None), "Own to have its rank, got none; call super"),
    ],
)
def test_a_channel_has_a_number_among_the_ranks(comm, match):
    with pytest.raises(hr.InputError, match=f"loader: expected {match}"):
        hr.ItemSampler(4).loader(comm=comm())

"""Arguments of what several ranks need: what would have no effect, or another one, is refused by its name."""

from __future__ import annotations

import pytest
import torch
from ranks import run_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import headrace as hr
from headrace.testing import LocalGroup


def test_modules_that_learn_nothing_have_nothing_to_add_up():
    hr.sum_gradients(nn.ReLU())
    hr.sum_gradients(nn.Linear(2, 2).requires_grad_(requires_grad=False), LocalGroup(1).comms[0])


@pytest.fixture
def job(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_gradients_are_added_up_once(job):
    model = DistributedDataParallel(nn.Linear(2, 2))
    hr.sum_gradients(model)
    model.register_comm_hook(None, hr.sum_hook)
    model(torch.ones(1, 2)).sum().backward()
    assert model.module.bias.grad.tolist() == [1.0, 1.0]
    with pytest.raises(hr.InputError, match=r"a DistributedDataParallel with hr\.sum_hook, which adds them up"):
        hr.sum_gradients(model)


@pytest.mark.parametrize("state", ["gloo", 1, torch.distributed.GroupMember.NON_GROUP_MEMBER, LocalGroup(1).comms[0]])
def test_the_state_of_the_hook_is_a_process_group(state, job):
    model = DistributedDataParallel(nn.Linear(2, 2))
    model.register_comm_hook(state, hr.sum_hook)
    with pytest.raises(hr.InputError, match="sum_hook: expected a process group of this rank, or None"):
        hr.sum_hook(state, None)
    with pytest.raises(Exception, match="sum_hook: expected a process group of this rank, or None"):
        model(torch.ones(1, 2)).sum().backward()


def test_one_element_is_sent_whatever_its_stride():
    """Torch takes it for contiguous, and views no bytes of it."""

    def work(comm):
        column = torch.arange(10).view(5, 2)[:1, comm.rank]
        assert column.stride() == (2,)
        return comm.all_to_all(column, [1 - comm.rank, comm.rank], [1, 0] if comm.rank == 0 else [0, 1]).tolist()

    assert run_ranks(2, work) == [[0], [1]]

"""How many threads read rows of the host: what a machine says, or the fewest that a measurement finds enough."""

from __future__ import annotations

import pytest
import torch

import headrace as hr
from headrace.cuda import bus, rows
from headrace.cuda.backend import stand_in
from headrace.pipeline.passes import rewrite

from cuda_host.stand_in import StandIn
from gpu_plans import GPU, fetched, names
from plans import graph, items, store

DEVICE = torch.device("cpu")


@pytest.fixture(autouse=True)
def _measured_anew():
    bus._measured.clear()
    yield
    bus.use_threads(None)
    bus._measured.clear()


def test_the_fewest_threads_are_taken_that_are_close_to_the_best():
    assert bus.fewest({4096: 40.0, 6144: 53.5, 10240: 55.0, 32768: 54.0}) == 6144
    assert bus.fewest({4096: 40.0, 6144: 53.0, 10240: 55.0, 32768: 54.0}) == 10240
    assert bus.fewest({4096: 55.0, 6144: 55.0}) == 4096


def test_a_measurement_is_made_once():
    backend = StandIn()
    with stand_in(backend):
        rates = bus.measured(DEVICE, 8)
        assert set(rates) == set(bus.CANDIDATES)
        assert min(rates.values()) > 0
        assert set(backend.launches) == {"headrace::gather_rows<std::int64_t, uint4>"}
        first = bus.threads_of_bus(DEVICE)
        count = len(backend.launches)
        assert first in bus.CANDIDATES
        assert bus.threads_of_bus(DEVICE) == first
        assert len(backend.launches) == count


def test_gathers_over_the_bus_take_them():
    bus.use_threads(2048)
    assert rows._kernel(25, 400, 1000, DEVICE, on_host=True) == ("gather_rows", 2048)
    assert rows._kernel(25, 400, 10, DEVICE, on_host=True) == ("gather_rows", 320)
    assert rows._kernel(25, 400, 1000, DEVICE, on_host=False) == ("gather_rows", 32_000)


def test_a_machine_says_how_many():
    machine = hr.Machine(cores=2, gpus=1, bus_threads=3072)
    plan = fetched().copy_to("cuda")
    assert "bus_threads=3072" in rewrite(plan, machine).explain()
    assert "bus_threads" not in rewrite(plan, GPU).explain()
    assert names(plan, machine) == names(plan, GPU)
    with stand_in(StandIn()), plan.loader(machine=machine) as loader:
        assert bus.threads_of_bus(DEVICE) == 3072
        assert len([*loader]) == len(loader)
    plan = items().copy_to("cuda").sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"])
    assert "bus_threads=3072" in rewrite(plan, machine).explain()


@pytest.mark.parametrize("count", [-1, 1.5, "many"])
def test_what_is_no_number_of_threads_is_refused(count):
    with pytest.raises(hr.InputError, match="bus_threads"):
        hr.Machine(bus_threads=count)

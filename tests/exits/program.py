"""What programs that leave an iteration midway have in common: plans, waiting, and the table of them."""

from __future__ import annotations

import signal
import time

import torch

import headrace as hr

#: Name -> (what the program does, the status that it must end with).
SCENARIOS = {}
OF_INTERRUPT = -signal.SIGINT


def ends_with(status):
    def enter(function):
        SCENARIOS[function.__name__] = (function, status)
        return function

    return enter


def graph():
    generator = torch.Generator().manual_seed(1)
    source, destination = torch.randint(0, 2000, (2, 20000), generator=generator)
    return hr.Graph.from_coo(source, destination, num_nodes=2000)


MADE = []


def with_tensors(batch):
    batch = batch.replace(node={f"h{number}": torch.ones(200) for number in range(3000)})
    MADE.append(batch.index)
    return batch


def wait_until_full():
    """Wait until the workers make nothing more, which then wait for a place when they are told to end."""
    seen = -1
    while seen != len(MADE):
        seen = len(MADE)
        time.sleep(0.4)


def sampled():
    return hr.ItemSampler(2000, batch_size=16, shuffle=True).sample_neighbor(graph(), [5, 5])


def plan(function=with_tensors, workers=2, depth=8):
    return sampled().transform(function).prefetch(workers=workers, depth=depth)


def midway(loader, step=2):
    """The batches up to some step, then a while in which the prefetch fills up."""
    for batch in loader:
        yield batch
        if batch.index == step:
            wait_until_full()


def leave_by_break(loader):
    for batch in midway(loader):
        if batch.index == 2:
            break

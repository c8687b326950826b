"""How many functions of Python a small batch calls: its time is theirs, not that of the kernels."""

from __future__ import annotations

import sys

from call_counts import calls_of, plan_of_small_batches
from ranks import run_ranks

#: Calls that a batch may take, of plans of two hops: on the CPU, and of each of two ranks that make batches together.
MOST_CALLS = 110
MOST_CALLS_TOGETHER = 400


def test_a_batch_of_two_hops_calls_few_functions(monkeypatch):
    monkeypatch.delitem(sys.modules, "headrace.cuda.backend", raising=False)  # as in a process that has used no GPU
    assert calls_of(plan_of_small_batches().loader(num_threads=1, prefetch=False)) <= MOST_CALLS


def test_a_batch_of_ranks_together_calls_few_functions(monkeypatch):
    """Of the rank and run that wait least: who comes first to an exchange looks for the other one again and again."""
    monkeypatch.delitem(sys.modules, "headrace.cuda.backend", raising=False)
    plan = plan_of_small_batches()

    def work(comm):
        return calls_of(plan.loader(num_threads=1, prefetch=False, cooperative=True, comm=comm))

    assert any(min(run_ranks(2, work)) <= MOST_CALLS_TOGETHER for _ in range(10))

"""Programs that end with an iteration in a global name print nothing: modules are half gone when it is destroyed."""

from __future__ import annotations

import pytest

from copies import Process

ITEMS = "import headrace as hr\nitems = hr.ItemSampler(800, batch_size=8)\n"
GRAPH = "graph = hr.Graph.from_coo(range(800), range(800), num_nodes=800)\n"

PROGRAMS = {
    "prefetch": "it = iter(items.prefetch(workers=2).loader())\nnext(it)",
    "a loader beside it": "loader = items.prefetch(workers=2).loader()\nit = iter(loader)\nnext(it)",
    "two prefetches": "it = iter(items.prefetch().transform(lambda b: b).prefetch().loader())\nnext(it)",
    "sampled": GRAPH + "it = iter(items.sample_neighbor(graph, [2]).prefetch(workers=2).loader())\nnext(it)",
    "progress": "it = iter(items.prefetch(workers=2).loader(progress=True))\nnext(it)",
    "not begun": "it = iter(items.prefetch(workers=2).loader())",
    "at its end": "it = iter(items.prefetch(workers=2).loader())\nlist(it)",
    "a generator": (
        "def batches():\n    with items.prefetch(workers=2).loader() as loader:\n        yield from loader\n"
        "kept = batches()\nnext(kept)"
    ),
}


@pytest.fixture(scope="module")
def ended():
    running = {name: Process(ITEMS + program) for name, program in PROGRAMS.items()}
    printed = {name: process.communicate(timeout=120) for name, process in running.items()}
    return {name: (*printed[name], process.returncode) for name, process in running.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_keeps_an_iteration_ends_without_a_word(ended, name):
    assert ended[name] == ("", "", 0)

"""What passes refuse: the call, the error, and what its message says."""

from __future__ import annotations

import pytest

import headrace as hr

from plans import graph, items, pairs

#: Passes without a switch.
REQUIRED = (
    *("expand_macros", "pad", "typed_items", "exclude_edges", "within_boundary", "own_gpu", "sample_on_cpu"),
    *("sample_at_owners", "fetch_at_owners"),
)
#: A name, a call, an error, and a pattern of its message.
REFUSALS = [
    (
        "exclusion_without_a_sampler",
        lambda: pairs().exclude_seed_edges().loader(),
        hr.PlanError,
        "expected a sampler behind it, got none",
    ),
    (
        "exclusion_behind_the_sampler",
        lambda: pairs().sample_neighbor(graph(), [2]).exclude_seed_edges().loader(),
        hr.PlanError,
        "a sampler behind it, got none",
    ),
    *(
        (
            f"{name}_cannot_be_switched_off",
            lambda name=name: items().sample_neighbor(graph(), [3]).loader(**{name: False}),
            hr.PlanError,
            name,
        )
        for name in REQUIRED
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
def test_it_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()

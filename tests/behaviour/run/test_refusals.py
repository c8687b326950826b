"""What loaders refuse: the call, the error, and what its message says."""

from __future__ import annotations

import pytest

import headrace as hr

from plans import items

#: A name, a call, an error, and a pattern of its message.
REFUSALS = [
    (
        "a_transform_must_return_a_batch",
        lambda: list(items().transform(lambda batch: None).loader()),
        hr.PlanError,
        "to return a MiniBatch, got ",
    ),
    ("bad_epochs", lambda: items().loader().set_epoch(-1), hr.HeadraceError, "-1"),
    (
        "what_is_no_node_is_refused",
        lambda: hr.ext.NodeSource([1, 2, 3]),
        hr.InputError,
        "got list without reset, __next__, state_dict",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
def test_it_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()

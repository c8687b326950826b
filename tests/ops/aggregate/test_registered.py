"""Operations that torch.compile takes: they keep torch's contract, and compute what eager aggregations do."""

from __future__ import annotations

import pytest
import torch

from headrace.ops import AttentionDropout, AttentionScores, InputError, attend_with_grad

pytest.importorskip("torch.library").__dict__.get("register_autograd") or pytest.skip(
    "torch before 2.4", allow_module_level=True
)

INDPTR = torch.tensor([0, 3, 3, 5, 9])
INDICES = torch.tensor([6, 0, 0, 2, 5, 1, 1, 3, 4], dtype=torch.int32)


def drawn(*shape):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(shape))).requires_grad_()


def arguments():
    weight, divisors = drawn(9, 2).detach().abs().requires_grad_(), torch.tensor([3.0, 1, 2, 4], dtype=torch.float64)
    scores = drawn(7, 2), drawn(4, 2), drawn(9, 2), drawn(9).detach().abs()
    return {
        "sum": (drawn(7, 2, 3), weight, divisors, 4, False),
        "extreme": (drawn(7, 2, 3), weight, False, 4, True),
        "attend": (drawn(7, 2, 3), *scores, 0.1, 0.3, torch.tensor(-5), torch.arange(9), False),
        "transpose": (7,),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sum", "extreme", "attend", "transpose"])
def test_operations_keep_the_contract_of_torch(name):
    from headrace.ops.aggregate import registered  # noqa: F401 - it registers them

    operation = getattr(torch.ops.headrace, name).default
    found = torch.library.opcheck(operation, (INDPTR, INDICES, *arguments()[name]))
    assert set(found.values()) == {"SUCCESS"}
    assert len(found) == 4, "schema, autograd, fake tensors, dynamic shapes"


def test_rows_are_as_many_as_said():
    from headrace.ops.aggregate import registered

    for operation, rest in ((registered.summed, (None,)), (registered.extreme, (True,))):
        with pytest.raises(InputError, match="expected indptr of 4 entries, one more than rows, got 5"):
            operation(INDPTR, INDICES, drawn(7, 2), None, *rest, 3, True)
    with pytest.raises(InputError, match="got 5"):
        rest = None, None, 0.2, 0.0, None, None, True
        registered.attended(INDPTR, INDICES, drawn(7, 2), drawn(7, 2), drawn(3, 2), *rest)


def test_dropout_by_a_key_in_a_tensor_is_dropout_by_the_key():
    from headrace.ops.aggregate import registered

    key = (1 << 64) - 5
    results = []
    for run in ("eager", "registered"):
        x, source, destination, edge = leaves = drawn(7, 2, 3), drawn(7, 2), drawn(4, 2), drawn(9, 2)
        if run == "eager":
            scores = AttentionScores(source, destination, edge, None, 0.2, AttentionDropout(0.4, key, torch.arange(9)))
            out = attend_with_grad(INDPTR, INDICES, x, scores)
        else:
            scores = AttentionScores(source, destination, edge)
            dropped = 0.4, torch.tensor(-5), torch.arange(9)
            out = registered.attended_by(INDPTR, INDICES, x, scores, *dropped, trusted=False)
        results.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
    assert all(map(torch.equal, *results))


def test_refuse_second_derivatives():
    from headrace.ops.aggregate import registered

    x, source, destination, edge = drawn(7, 2, 3), drawn(7, 2), drawn(4, 2), drawn(9, 2)
    scores = AttentionScores(source, destination, edge)
    for out in (
        registered.summed(INDPTR, INDICES, x, edge, None, 4, True),
        registered.extreme(INDPTR, INDICES, x, edge, True, 4, True)[0],
        registered.attended_by(INDPTR, INDICES, x, scores, trusted=True),
    ):
        with pytest.raises(InputError, match="second derivatives are not supported"):
            torch.autograd.grad(out.sum(), x, create_graph=True)

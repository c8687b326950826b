"""Modules between layers may look at all rows to raise an error, and for nothing else."""

from __future__ import annotations

import contextlib

import pytest
import torch
from between_layers import FORMS, WIDTH, Net, run
from torch import Tensor, nn

import headrace as hr


class Users(nn.Module):
    """A module of a user, which computes a function of rows."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function, self.lin, self.noted = function, nn.Linear(WIDTH, WIDTH), []

    def forward(self, h: Tensor) -> Tensor:
        return self.function(self, h)


def check(rows: Tensor) -> None:
    assert torch.isfinite(rows).all(), "rows"


def asserts(module: Users, h: Tensor) -> Tensor:
    assert not torch.isnan(h).any()
    assert h.abs().max() < 1e9 and (  # noqa: PT018 - over several lines
        h.isfinite().all()
    )
    return module.lin(h)


def raises(module: Users, h: Tensor) -> Tensor:
    if h.isnan().any() or not torch.isfinite(h).all():
        problem = "rows"
        raise ValueError(problem)
    if h.isinf().any(): raise ValueError("rows")  # noqa: E701  # fmt: skip
    return module.lin(h)


def asks_another(module: Users, h: Tensor) -> Tensor:
    with torch.no_grad():
        check(h)
    return module.lin(h)


def branches(module: Users, h: Tensor) -> Tensor:
    if (h > 1).any():
        h = h * 2
    return h


def one_of_two(module: Users, h: Tensor) -> Tensor:
    return h * 2 if (h > 1).any() else h


def catches(module: Users, h: Tensor) -> Tensor:
    try:
        check(h / h.abs().max().clamp(max=0))
    except AssertionError:
        h = h * 2
    return h


def suppresses(module: Users, h: Tensor) -> Tensor:
    with contextlib.suppress(AssertionError):
        assert (h > 1).any()
        h = h * 2
    return h


def notes(module: Users, h: Tensor) -> Tensor:
    assert module.noted.append(not (h > 1).any()) is None
    return h * (1 + module.noted[-1])


def notes_some(module: Users, h: Tensor) -> Tensor:
    assert not (h > 1).any() or module.noted.append(1) is None
    return h * (1 + len(module.noted))


def names(module: Users, h: Tensor) -> Tensor:
    assert (is_low := not (h > 1).any()) in (True, False)  # noqa: RUF018
    return h * (1 + is_low)


def returns_first(module: Users, h: Tensor) -> Tensor:
    if (h > 1).any():
        if module.training:
            return h * 2
        raise ValueError("rows")
    return h


def in_a_line(module: Users, h: Tensor) -> Tensor:
    factor = 2 if (h > 1).any() else 1; assert h.dim() == 2  # noqa: E702  # fmt: skip
    return h * factor


def answers(module: Users, h: Tensor) -> Tensor:
    def any_high() -> bool:
        return bool((h > 1).any())

    assert any_high() in (True, False)
    return h


GUARDS = [asserts, raises, asks_another]
BRANCHES = [branches, one_of_two, catches, suppresses, notes, notes_some, names, returns_first, in_a_line, answers]


@pytest.mark.parametrize("function", GUARDS)
def test_what_only_raises_may_look_at_all_rows(function):
    model = Net(lambda: Users(function), FORMS["rows"]).double()
    assert run(2, model) == pytest.approx(run(1, model), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("function", BRANCHES)
def test_other_branches_by_all_rows_are_refused(function):
    with pytest.raises(hr.InputError, match=r"Users, which .*row_local="):
        run(2, Net(lambda: Users(function), FORMS["rows"]).double())


def test_a_model_around_that_catches_the_error():
    def form(module: nn.Module, h: Tensor) -> Tensor:
        try:
            return module(h)
        except AssertionError:
            return h

    with pytest.raises(hr.InputError, match=r"Users, which .*row_local="):
        run(2, Net(lambda: Users(asserts), form).double())


def test_a_guard_raises_its_error():
    def fails(module: Users, h: Tensor) -> Tensor:
        assert not (h > -1e9).any(), "too high"
        return h

    with pytest.raises(AssertionError, match="too high"):
        run(2, Net(lambda: Users(fails), FORMS["rows"]).double())

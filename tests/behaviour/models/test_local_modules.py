"""Batch normalisation and dropout of kinds that nothing replaces are refused by name, not left to each rank."""

from __future__ import annotations

import pytest
from torch import nn

import headrace as hr

from plans import graph


class OwnBatchNorm(nn.BatchNorm1d):
    """A subclass of one's own."""


class OwnDropout(nn.Dropout):
    """A subclass of one's own."""


pyg = pytest.importorskip("torch_geometric.nn")

NORMS = (OwnBatchNorm(2), nn.LazyBatchNorm1d(), nn.SyncBatchNorm(2), nn.BatchNorm2d(2))
PYG_NORMS = (pyg.GraphNorm(2), pyg.LayerNorm(2), pyg.PairNorm(), pyg.MeanSubtractionNorm(), pyg.InstanceNorm(2))
DROPOUTS = (OwnDropout(), nn.AlphaDropout(), nn.FeatureAlphaDropout(), nn.Dropout1d(), nn.Dropout2d())
WRAPPERS = {
    "hr.sar.wrap": lambda model: hr.sar.wrap(model, hr.sar.ShardedGraph(graph())),
    "cooperative": lambda model: hr.cooperative(model, layers=[]),
}


@pytest.mark.parametrize("caller", WRAPPERS)
@pytest.mark.parametrize("module", NORMS + PYG_NORMS + DROPOUTS, ids=lambda module: type(module).__name__)
def test_other_kinds_are_refused_before_anything_is_replaced(module, caller):
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Sequential(nn.Dropout(), module))
    problem = "the rows of one rank alone" if module not in DROPOUTS else "draw on each rank for itself"
    with pytest.raises(hr.InputError, match=rf"^{caller}: .*\.{type(module).__name__} would .*{problem}"):
        WRAPPERS[caller](model)
    assert type(model[0]) is nn.BatchNorm1d
    assert type(model[1][0]) is nn.Dropout


@pytest.mark.parametrize("caller", WRAPPERS)
def test_what_has_been_replaced_may_be_there_again(caller):
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(), nn.InstanceNorm1d(2), nn.LayerNorm(2))
    model.extend([pyg.BatchNorm(2), pyg.LayerNorm(2, mode="node"), pyg.DiffGroupNorm(2, groups=2), pyg.MessageNorm()])
    for _ in range(2):
        WRAPPERS[caller](model)


@pytest.mark.parametrize("caller", WRAPPERS)
def test_a_norm_that_would_leave_out_the_ranks_with_one_row_is_refused(caller):
    with pytest.raises(hr.InputError, match="allow_single_element=True would not meet the other ranks"):
        WRAPPERS[caller](nn.Sequential(pyg.BatchNorm(2, allow_single_element=True)))

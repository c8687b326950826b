"""Labels beside negatives, whose class is 0: no positive pair has it, and all ranks count alike."""

from __future__ import annotations

import pytest
import torch
from ranks import run_ranks

import headrace as hr

from plans import edges, graph

NAN = float("nan")
WAYS = pytest.mark.parametrize("cooperative", [False, True], ids=["alone", "together"])


def negatives(labels, first=0, mode="binary", **options):
    items = edges()[first : first + len(labels)], labels
    return hr.ItemSampler(items, batch_size=8, seed=3, **options).sample_uniform_negative(graph(), 1, mode)


def classes(batches, labels):
    """Return for each label which class it became, and those of the negatives."""
    found, drawn = {}, set()
    for batch in batches:
        num = batch.num_positives
        found.update(zip(labels[batch.item_index[:num]].tolist(), batch.y[:num].tolist(), strict=True))
        drawn |= set(batch.y[num:].tolist())
    assert drawn <= {0}
    return found


def on_ranks(labels, cooperative):
    def work(comm):
        mine = labels[comm.rank]
        plan = negatives(mine, 30 * comm.rank, items_per_rank=True).sample_neighbor(graph(), [2])
        try:
            with plan.loader(comm=comm, cooperative=cooperative) as loader:
                return classes(loader, mine)
        except hr.InputError as error:
            return str(error)

    return run_ranks(len(labels), work)


@WAYS
def test_ranks_that_bring_their_own_decide_together(cooperative):
    labels = [torch.arange(20) % 2, torch.arange(20) % 2 + 1, torch.arange(0)]
    assert on_ranks(labels, cooperative) == [{0: 1, 1: 2}, {1: 2, 2: 3}, {}]
    labels = [torch.arange(20) % 2 + 3, torch.arange(20) % 2 + 1]
    assert on_ranks(labels, cooperative) == [{3: 3, 4: 4}, {1: 1, 2: 2}]


@WAYS
def test_ranks_that_bring_their_own_refuse_together(cooperative):
    """Also the rank whose own labels are none of those in question: it would wait for the others."""
    for labels in (
        [torch.arange(20) % 2, torch.full((20,), -1)],
        [torch.zeros(20), torch.full((20,), NAN)],
        [torch.full((20,), 255, dtype=torch.uint8), torch.zeros(20, dtype=torch.uint8)],
    ):
        first, second = on_ranks(labels, cooperative)
        assert first == second
        assert "sample_uniform_negative: expected labels that" in first


REFUSED = {
    "-1 to 1": ([-1, 0, 1], torch.int64, "got 0 among labels whose smallest is -1"),
    "float": ([-0.5, 0, 1], torch.float32, "smallest is -0.5"),
    "nan": ([NAN, 0, 1], torch.float64, "smallest is nan"),
    "rows": ([[-1, 0], [0, 0], [1, 1]], torch.int32, "got 0 among"),
    "uint8": ([0, 255], torch.uint8, r"largest number of their dtype; .*labels\.long"),
    "int8": ([0, 127], torch.int8, "largest number of their dtype"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_labels_of_which_one_would_be_0_are_refused(case):
    values, dtype, message = case
    labels = torch.tensor(values, dtype=dtype)
    with pytest.raises(hr.InputError, match=f"sample_uniform_negative: expected labels .*{message}"):
        negatives(labels).loader()
    for batch in negatives(labels, mode="triplet").loader():  # negatives have no labels
        assert torch.equal(batch.y.double().nan_to_num(7), labels[batch.item_index].double().nan_to_num(7))


@pytest.mark.parametrize(
    ("labels", "become"),
    [
        (torch.tensor([-1, 1]), {-1: -1, 1: 1}),
        (torch.tensor([1, 255], dtype=torch.uint8), {1: 1, 255: 255}),
        (torch.tensor([0, 254], dtype=torch.uint8), {0: 1, 254: 255}),
        (torch.tensor([False, True]), {False: 1, True: 2}),
        (torch.tensor([True, True]), {True: 1}),
        (torch.tensor([1e-50, 2], dtype=torch.float64), {1e-50: 1e-50, 2: 2}),
    ],
    ids=["-1 and 1", "to 255", "to 254", "bool", "true", "tiny"],
)
def test_labels_that_leave_0_to_negatives_stay_what_they_are(labels, become):
    assert classes(negatives(labels).loader(), labels) == become


def test_rows_of_which_none_is_0_stay():
    labels = torch.tensor([[-1, 0], [0, 1]])
    (batch,) = negatives(labels).loader()
    assert torch.equal(batch.y[:2], labels[batch.item_index[:2]])


@pytest.mark.parametrize(("begin", "written"), [(1, 0), (0, -1), (0, 127)], ids=["0", "-1", "127"])
def test_labels_written_to_begin_elsewhere_are_refused(begin, written):
    labels = (torch.arange(20) % 2 + begin).to(torch.int8)
    with negatives(labels).loader() as loader:
        assert classes(loader, labels) == {begin: 1, begin + 1: 2}
        labels[7] = written
        with pytest.raises(hr.InputError, match=f"expected labels .*got {written}; make a new loader"):
            list(loader)
        labels[7] = 5
        assert classes(loader, labels)[5] == 6 - begin

"""Lightning trains with loaders of headrace.pyg, and PyG's data modules with the sampler."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.sampler import NegativeSampling

from headrace.pyg import LinkNeighborLoader, NeighborLoader, Sampler, ShaDowKHopSampler

BATCH_SIZE = 20


@pytest.fixture
def split(data) -> Data:
    data.x = data.x.float() / 100
    data.val_mask = data.test_mask = ~data.train_mask
    return data


def trained(lightning, **loaders):
    """Return the nodes of batches that a model is trained on for two epochs."""
    seen = []

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 4)

        def training_step(self, batch, number):
            del number
            seen.append(batch.n_id.tolist())
            return self.layer(batch.x).square().mean()

        def validation_step(self, batch, number):
            del batch, number

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning speaks of its own habits
        lightning.Trainer(max_epochs=2, accelerator="cpu", **quiet).fit(Model(), **loaders)
    return seen


def test_a_loader_as_it_is(split):
    lightning = pytest.importorskip("pytorch_lightning")

    def loader():
        return NeighborLoader(split, [3, 2], split.train_mask, batch_size=BATCH_SIZE, shuffle=True, seed=3)

    expected = loader()
    batches = [batch.n_id.tolist() for _ in range(2) for batch in expected]
    assert trained(lightning, train_dataloaders=loader()) == batches


def test_data_modules_of_pyg_take_the_sampler(split):
    lightning = pytest.importorskip("pytorch_lightning")
    from torch_geometric.data.lightning import LightningLinkData, LightningNodeData

    options = {"batch_size": BATCH_SIZE, "num_workers": 0, "pin_memory": False}
    nodes = LightningNodeData(split, node_sampler=Sampler(split, [3, 2], seed=1), **options)
    assert len(trained(lightning, datamodule=nodes)) == 2 * -(-int(split.train_mask.sum()) // BATCH_SIZE)
    links = LightningLinkData(
        split,
        input_train_edges=split.edge_index[:, :60],
        link_sampler=Sampler(split, [3, 2], seed=1),
        neg_sampling=NegativeSampling("binary"),
        **options,
    )
    batch = next(iter(links.train_dataloader()))
    assert batch.edge_label_index.shape == (2, 2 * BATCH_SIZE)
    assert torch.equal(batch.x, split.x[batch.n_id])


@pytest.mark.parametrize(
    "make",
    [
        lambda data, **options: NeighborLoader(data, [3, 2], **options),
        lambda data, **options: LinkNeighborLoader(data, [3, 2], neg_sampling_ratio=1.0, **options),
        lambda data, **options: ShaDowKHopSampler(data, 2, 3, **options),
    ],
    ids=["nodes", "links", "shadow"],
)
def test_nothing_is_drawn_from_the_generator_of_torch(data, make):
    def digests(loader):
        return [[rows.tolist() for rows in (batch.edge_index, batch.x)] for batch in loader]

    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = digests(make(data, batch_size=BATCH_SIZE, shuffle=True, seed=5))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert digests(make(data, batch_size=BATCH_SIZE, shuffle=True, seed=5)) == one
    loader = make(data, batch_size=BATCH_SIZE, shuffle=True)  # its seed is 2 by now
    torch.manual_seed(3)
    assert digests(loader) == digests(make(data, batch_size=BATCH_SIZE, shuffle=True, seed=2))


@pytest.mark.filterwarnings("ignore")
def test_counts_of_each_epoch_are_logged(split, capsys):
    lightning = pytest.importorskip("pytorch_lightning")
    from pytorch_lightning.loggers import Logger

    import headrace as hr
    from headrace.lightning import LogStats

    class Recorded(Logger):
        name, version = "recorded", 0

        def __init__(self):
            super().__init__()
            self.logged = []

        def log_hyperparams(self, *args, **kwargs):
            pass

        def log_metrics(self, metrics, step=None):
            self.logged.append((step, metrics))

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def training_step(self, batch, number):
            del batch, number
            return self.weight.sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    quiet = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    drop_in = NeighborLoader(split, [3], split.train_mask, batch_size=BATCH_SIZE)
    plan = hr.ItemSampler(60, batch_size=BATCH_SIZE).sample_neighbor(hr.Graph.from_pyg(split), [3])
    for loaders, prefixes in ((drop_in, [""]), (plan.loader(), [""]), ([drop_in, plan.loader()], ["0/", "1/"])):
        recorded = Recorded()
        trainer = lightning.Trainer(
            max_epochs=2, accelerator="cpu", logger=recorded, callbacks=[LogStats(show=True)], **quiet
        )
        trainer.fit(Model(), train_dataloaders=loaders)
        counts = [metrics for _, metrics in recorded.logged if any("waited_share" in name for name in metrics)]
        assert len(counts) == 2 * len(prefixes)
        for metrics, prefix in zip(counts, prefixes * 2, strict=True):
            batches = metrics[f"{prefix}loader/item_sampler/batches"]
            assert 0 < batches <= trainer.num_training_batches  # of one epoch: counts begin anew
            assert metrics[f"{prefix}loader/waited_share"] >= 0
        assert "the training loop waited" in capsys.readouterr().out

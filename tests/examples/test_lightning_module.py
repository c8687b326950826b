"""Lightning trains with a loader, and goes on in the middle of an epoch with the very next minibatch."""

from __future__ import annotations

import sys

import pytest
import torch

import headrace as hr

# Lightning speaks of its own habits by warnings.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def lightning_module(examples):
    import lightning_module

    return lightning_module


def test_learns_to_the_end(lightning_module, data, tmp_path, monkeypatch, capsys):
    arguments = ["--data", data, "--runs", tmp_path, "--epochs", "6", "--batch-size", "40"]
    monkeypatch.setattr(sys, "argv", ["lightning_module.py", *map(str, arguments)])
    lightning_module.main()
    assert float(capsys.readouterr().out.rsplit("test accuracy", 1)[1]) > 0.9
    assert (tmp_path / "last.ckpt").exists()


def test_a_resumed_run_goes_on_with_the_very_next_minibatch(lightning_module, data, tmp_path):
    loaded = lightning_module.datasets.load(str(data))

    def fit(max_steps, resume=None):
        seen = []

        class Log(lightning_module.lightning.Callback):
            def on_train_batch_start(self, trainer, module, batch, index):
                seen.append((batch.epoch, batch.index, batch.digest()))

        trainer = lightning_module.lightning.Trainer(
            max_steps=max_steps,
            accelerator="cpu",
            callbacks=[Log()],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            num_sanity_val_steps=0,
            default_root_dir=tmp_path,
        )
        graphs = lightning_module.Graphs(loaded, [4, 3], batch_size=40)
        trainer.fit(lightning_module.Sage(loaded.x.shape[1], 8, 3), graphs, ckpt_path=resume)
        trainer.save_checkpoint(tmp_path / "here.ckpt")
        return seen

    whole = fit(12)
    assert [batch[:2] for batch in whole] == [(at // 5, at % 5) for at in range(12)]
    assert fit(7) == whole[:7]
    assert fit(12, tmp_path / "here.ckpt") == whole[7:]
    assert fit(10) == whole[:10]
    assert fit(12, tmp_path / "here.ckpt") == whole[10:]


def test_inference_is_what_full_batches_give(lightning_module, data):
    loaded = lightning_module.datasets.load(str(data))
    graphs = lightning_module.Graphs(loaded, [4, 3], batch_size=50)
    torch.manual_seed(0)
    model = lightning_module.Sage(loaded.x.shape[1], 8, 3).eval()
    rows = hr.inference(model, graphs.graph, graphs.store, batch_size=100)
    with torch.no_grad(), graphs.val_dataloader() as loader:
        for batch in loader:
            torch.testing.assert_close(rows[batch.seeds], model(batch))

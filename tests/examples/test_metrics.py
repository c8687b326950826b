"""The example of metrics writes text that Prometheus reads, and a picture."""

from __future__ import annotations

import sys

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")


def test_writes_counts_and_a_picture(examples, data, tmp_path, monkeypatch, capsys):
    import metrics

    monkeypatch.setattr(sys, "argv", ["metrics.py", "--data", str(data), "--runs", str(tmp_path), "--epochs", "2"])
    metrics.main()
    lines = (tmp_path / "headrace.prom").read_text().splitlines()
    assert 'headrace_stage_batches_total{stage="sample_layer_neighbor",job="training"} 2' in lines
    assert (tmp_path / "timeline.png").stat().st_size > 5_000
    assert capsys.readouterr().out.count("the training loop waited") == 2
    assert not list(tmp_path.glob("*.tmp"))

"""The main job: it learns, and kill -9 in the middle of an epoch costs it nothing but the time since the checkpoint."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from copies import Process

# Its processes have limits of their own, of which a test may need several.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SCRIPT = Path(__file__).parents[2] / "examples" / "node_classification.py"


def command(data, folder, *options):
    sizes = ["--fanouts", "4,3", "--batch-size", "20", "--hidden", "16"]
    return [SCRIPT, "--data", data, "--runs", folder, *sizes, *options]


def start(data, folder, *options):
    # The script's own folder belongs on the path of a script.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return Process(*command(data, folder, *options), environment=environment)


def run(data, folder, *options):
    process = start(data, folder, *options)
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, output + errors
    return output


@pytest.fixture
def run_here(node_classification, data, monkeypatch):
    """Run the script's program in this process, which has imported what it needs."""

    def run_here(folder, *options):
        monkeypatch.setattr("sys.argv", list(map(str, command(data, folder, *options))))
        node_classification.main()

    return run_here


@pytest.mark.parametrize(
    ("options", "verb"),
    [
        (["--sampler", "neighbor"], "sample_neighbor"),
        (["--sampler", "labor"], "sample_layer_neighbor"),
        (["--sampler", "labor-star"], "sample_layer_neighbor"),
        (["--sampler", "ladies", "--fanouts", "60,120"], "sample_ladies"),
        (["--model", "gcn"], "sample_neighbor"),
    ],
)
def test_learns_and_tells_what_it_did(run_here, tmp_path, options, verb, capsys):
    run_here(tmp_path, "--epochs", "4", "--lr", "0.02", *options)
    output = capsys.readouterr().out
    assert float(output.rsplit("test accuracy", 1)[1].split()[0]) > 0.9
    assert "pass fuse_sampling (same batches)" in output
    assert verb in output.split("plan that runs")[1].split("the training loop waited")[0]
    assert list(tmp_path.glob("*/curve.png"))


@pytest.mark.thorough
def test_kill_and_resume_continues_with_the_very_next_batch(run_here, data, tmp_path):
    epochs = ["--epochs", "3", "--checkpoint-every", "1", "--log-batches"]
    run_here(tmp_path / "whole", *epochs, tmp_path / "whole.log")
    whole = (tmp_path / "whole.log").read_text().splitlines()
    assert len(whole) == 30

    log = tmp_path / "killed.log"
    process = start(data, tmp_path / "killed", *epochs, log)
    while not (log.exists() and log.read_text().count("\n") >= 14):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = log.read_text().splitlines()
    log.unlink()

    run(data, tmp_path / "killed", *epochs, log, "--resume")
    after = log.read_text().splitlines()
    done = len(whole) - len(after)
    # The kill may fall between the log's line of a batch and its checkpoint: then that one batch is done again.
    assert done in (len(before) - 1, len(before))
    assert before == whole[: len(before)]
    assert after == whole[done:]


@pytest.mark.thorough
def test_a_checkpoint_of_another_plan_is_refused(run_here, data, tmp_path):
    run_here(tmp_path, "--epochs", "1")
    process = start(data, tmp_path, "--epochs", "2", "--resume", "--seed", "5")
    _, errors = process.communicate(timeout=240)
    assert process.returncode != 0
    assert "stage item_sampler differs" in errors

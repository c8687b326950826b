"""Measure the test accuracy of minibatch training on real graphs over several seeds, and print it as a table.

    python examples/accuracy.py --data ../shared/data --seeds 5 --json runs/accuracy.json

Each run is `node_classification.train` with its defaults but for the epochs below; validation accuracy chooses the
epoch that counts. A new seed changes initial weights, dropout, order and samples; the split stays as the file has it.
The folder holds cora.npz, amazon_computers.npz and coauthor_physics.npz, each with `edge_index`, the features in CSR
form (`x_indptr`, `x_indices`, `x_data`, `x_shape`), `y`, and `train_mask`, `val_mask` and `test_mask`. PyG's Planetoid,
Amazon and Coauthor have the graphs, the first also its masks. coauthor_physics goes through a random projection of its
8,415 features to 512.

Mean, standard deviation and lowest of 5 seeds:

================  =========  ========  ==========  ======  ===============  ======
data set          model      sampler   fanouts     epochs  test accuracy    lowest
================  =========  ========  ==========  ======  ===============  ======
cora              GCN        neighbor  -1, -1      100     0.8240 ± 0.0092  0.8140
cora              GCN        labor     -1, -1      100     0.8240 ± 0.0092  0.8140
amazon_computers  GraphSAGE  neighbor  10, 10, 10  15      0.9151 ± 0.0029  0.9109
amazon_computers  GraphSAGE  labor     10, 10, 10  15      0.9141 ± 0.0032  0.9106
coauthor_physics  GraphSAGE  neighbor  10, 10, 10  4       0.9621 ± 0.0010  0.9607
coauthor_physics  GraphSAGE  labor     10, 10, 10  4       0.9621 ± 0.0009  0.9612
================  =========  ========  ==========  ======  ===============  ======

With full neighbourhoods both samplers give the same batches, hence the same cora rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import datasets
import node_classification

# File, model, epochs, and the mean that the project promises.
RUNS = [
    ("cora", "gcn", 100, 0.805),
    ("amazon_computers", "sage", 15, 0.89),
    ("coauthor_physics", "sage", 4, 0.955),
]


def measure(data: datasets.Dataset, model: str, sampler: str, epochs: int, seeds: int) -> dict[str, Any]:
    """Train once per seed and return the accuracies at the epochs that validation chose."""
    accuracies, start = [], time.perf_counter()
    for seed in range(seeds):
        options = node_classification.parse(
            [
                "--model",
                model,
                "--sampler",
                sampler,
                "--epochs",
                str(epochs),
                "--seed",
                str(seed),
                "--checkpoint-every",
                "0",
            ]
        )
        history = node_classification.train(options, data, quiet=True)
        accuracies.append(node_classification.best_epoch(history)["test"])
    return {
        "fanouts": options.fanouts,
        "epochs": epochs,
        "accuracies": accuracies,
        "mean": statistics.mean(accuracies),
        "deviation": statistics.stdev(accuracies) if seeds > 1 else 0.0,
        "seconds_per_run": (time.perf_counter() - start) / seeds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the .npz files")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", help="one data set, e.g. cora")
    parser.add_argument("--json", type=Path, help="write every number to this file")
    options = parser.parse_args()
    results = []
    print("| data set | model | sampler | fanouts | epochs | test accuracy | lowest | promised | s per run |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, model, epochs, promised in RUNS:
        if options.only not in (None, name):
            continue
        data = datasets.load(str(options.data / f"{name}.npz"))
        for sampler in ("neighbor", "labor"):
            found = measure(data, model, sampler, epochs, options.seeds)
            results.append({"data": name, "model": model, "sampler": sampler, "promised": promised, **found})
            print(
                f"| {name} | {model} | {sampler} | {found['fanouts']} | {epochs} | "
                f"{found['mean']:.4f} ± {found['deviation']:.4f} | {min(found['accuracies']):.4f} | {promised} | "
                f"{found['seconds_per_run']:.0f} |",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

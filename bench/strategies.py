"""Strategies of training: accuracy on test nodes and time of an epoch, on real graphs, beside what was published.

The same model on the whole graph (global-batch), on minibatches of whole neighbourhoods, on clusters with and without
what is around them, and on sampled minibatches. Means over seeds; the spread is that of the seeds.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from harness import Record, arguments, describe_machine, print_table, summarised, write_json
from strategies_training import NUM_LAYERS, Data, Gat, Gcn, Training, data_of, train

import headrace as hr

BENCH = "strategies"
FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"
#: Hidden columns, epochs, seeds of a minibatch, clusters, clusters of a batch.
SETTINGS = {
    "cora": (16, 200, 70, 20, 5),
    "amazon_computers": (64, 60, 512, 50, 10),
    "coauthor_physics": (64, 30, 512, 50, 10),
}
#: Test accuracies of GraphTheta (arXiv 2104.10569) and of the papers of the models, in per cent.
PUBLISHED = {
    ("cora", "GCN, global-batch"): "82.7 (GraphTheta), 81.5 (Kipf and Welling)",
    ("cora", "GCN, mini-batch"): "82.4 (GraphTheta)",
    ("cora", "GCN, clusters"): "70.5 (GraphTheta's rerun of Cluster-GCN)",
    ("cora", "GAT, global-batch"): "81.1 (GraphTheta), 83.0 (Velickovic et al.)",
}


def trainings(name: str) -> dict[str, Training]:
    """Return the strategies for a graph."""
    hidden, epochs, batch_size, num_clusters, together = SETTINGS[name]

    def clusters(data: Data) -> hr.Partition:
        return hr.Partition.metis(data.graph, num_clusters)

    def items(data: Data, seed: int) -> hr.Plan:
        return hr.ItemSampler(data.train, batch_size=batch_size, shuffle=True, seed=seed)

    def whole(source: hr.Plan, data: Data) -> hr.Plan:
        return source.sample_in_subgraph(data.graph, num_hops=NUM_LAYERS)

    def in_clusters(boundary: int) -> Training:
        def source(data: Data, seed: int) -> hr.Plan:
            return whole(hr.ClusterSampler(clusters(data), together, boundary=boundary, seed=seed), data)

        return Training(gcn, source, epochs, 0.01)

    def gcn(data: Data) -> torch.nn.Module:
        return Gcn(data, hidden)

    found = {
        "GCN, global-batch": Training(
            gcn, lambda data, seed: whole(hr.GlobalBatch(data.graph, seed=seed), data), epochs, 0.01
        ),
        "GCN, mini-batch": Training(gcn, lambda data, seed: whole(items(data, seed), data), epochs, 0.01),
        "GCN, clusters": in_clusters(0),
        "GCN, clusters and 1 hop around": in_clusters(1),
        "GCN, clusters and 2 hops around": in_clusters(2),
        "GCN, neighbours 10, 10": Training(
            gcn, lambda data, seed: items(data, seed).sample_neighbor(data.graph, [10, 10]), epochs, 0.01
        ),
        "GCN, LABOR 10, 10": Training(
            gcn, lambda data, seed: items(data, seed).sample_layer_neighbor(data.graph, [10, 10]), epochs, 0.01
        ),
    }
    if name == "cora":
        found["GAT, global-batch"] = Training(
            lambda data: Gat(data, 8),
            lambda data, seed: whole(hr.GlobalBatch(data.graph, seed=seed), data),
            epochs,
            0.005,
        )
    return found


def main() -> None:
    parser = arguments(__doc__ or "", rounds=1)
    parser.add_argument("--graphs", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--seeds", type=int, default=20, help="of cora; others get a quarter")
    parser.add_argument("--epochs", type=int, help="fewer of them, to see that it runs")
    options = parser.parse_args()
    print(describe_machine(["headrace", "torch", "numpy"]))
    records: list[Record] = []
    for name in options.graphs:
        path = FOLDER / f"{name}.npz"
        if not path.exists():
            print(f"{name}: skipped, as there is no {path}")
            continue
        data = data_of(path)
        seeds = options.seeds if name == "cora" else max(options.seeds // 4, 1)
        for system, training in trainings(name).items():
            shortened = training if options.epochs is None else replace(training, epochs=options.epochs)
            runs = [train(shortened, data, seed) for seed in range(seeds)]
            accuracies, seconds = ([run[i] for run in runs] for i in range(2))
            mean = 100 * sum(accuracies) / seeds
            deviation = 100 * float(torch.tensor(accuracies).std()) if seeds > 1 else 0.0
            published = PUBLISHED.get((name, system), "")
            print(f"{name}, {system}: {mean:.2f} +- {deviation:.2f}{'; published ' if published else ''}{published}")
            case, threads = f"{name}, {seeds} seeds", torch.get_num_threads()
            percent = [100 * one for one in accuracies]
            records += [
                summarised(BENCH, case, system, "test accuracy", "%", percent, threads),
                summarised(BENCH, case, system, "mean test accuracy", "%", [mean], threads),
                summarised(BENCH, case, system, "time", "ms", [1000 * one for one in seconds], threads),
            ]
    print_table(records)
    write_json(options.json, records)


if __name__ == "__main__":
    main()

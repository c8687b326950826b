"""Strategies of training: accuracy on test nodes and time of an epoch, on real graphs, beside what was published.

The same model on the whole graph (global-batch), on minibatches of whole neighbourhoods, on clusters with and without
what is around them, and on sampled minibatches. Validation accuracy chooses the epoch that counts. Means over seeds;
the spread is that of the seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, stdev

import torch
from harness import (
    Record,
    add_data,
    arguments,
    describe_machine,
    print_table,
    summarised,
    write_json,
)
from plot import draw_bars
from published_strategies import PUBLISHED
from strategies_training import NUM_LAYERS, Data, Gat, Gcn, Training, data_of, train

import headrace as hr

BENCH = "strategies"
WHOLE, MINI, CLUSTERS, AROUND, AROUND_2 = (
    "global-batch",
    "mini-batch",
    "clusters",
    "clusters and 1 hop around",
    "clusters and 2 hops around",
)
NEIGHBOURS, LABOR = SAMPLED = ("neighbours 10, 10", "LABOR 10, 10")
#: What is compared with what, in points of accuracy.
DIFFERENCES = ((MINI, WHOLE), (AROUND, CLUSTERS), (AROUND_2, CLUSTERS))
#: What claims are about, and is trained with all seeds; the rest gets a quarter of them.
CLAIMED = {f"GCN, {name}" for name in (WHOLE, MINI, CLUSTERS, AROUND)} | {f"GAT, {WHOLE}"}


@dataclass(frozen=True)
class Setting:
    """How models are trained on a graph: a batch of each strategy is a step, and they take as many or more."""

    hidden: int
    batch_size: int
    clusters: int
    together: int
    epochs: int
    mini_epochs: int
    cluster_epochs: int


SETTINGS = {
    "cora": Setting(16, 70, 20, 5, epochs=200, mini_epochs=150, cluster_epochs=75),
    "amazon_computers": Setting(64, 1024, 50, 10, epochs=120, mini_epochs=12, cluster_epochs=40),
    "coauthor_physics": Setting(64, 1024, 50, 10, epochs=30, mini_epochs=3, cluster_epochs=8),
}

Source = Callable[[Data, int], hr.Plan]


def sources(setting: Setting, data: Data) -> dict[str, tuple[Source, int]]:
    """Return the strategies for a graph, plans up to the sampler by data and seed, and the epochs of each."""
    partition = hr.Partition.metis(data.graph, setting.clusters)

    def items(data: Data, seed: int) -> hr.Plan:
        return hr.ItemSampler(data.train, batch_size=setting.batch_size, shuffle=True, seed=seed)

    def whole(source: Source) -> Source:
        return lambda data, seed: source(data, seed).sample_in_subgraph(data.graph, num_hops=NUM_LAYERS)

    def clusters(boundary: int) -> tuple[Source, int]:
        source = whole(lambda _, seed: hr.ClusterSampler(partition, setting.together, boundary=boundary, seed=seed))
        return source, setting.cluster_epochs

    def sampled(verb: str) -> tuple[Source, int]:
        return lambda data, seed: getattr(items(data, seed), verb)(data.graph, [10, 10]), setting.mini_epochs

    return {
        WHOLE: (whole(lambda data, seed: hr.GlobalBatch(data.graph, seed=seed)), setting.epochs),
        MINI: (whole(items), setting.mini_epochs),
        CLUSTERS: clusters(0),
        AROUND: clusters(1),
        AROUND_2: clusters(2),
        NEIGHBOURS: sampled("sample_neighbor"),
        LABOR: sampled("sample_layer_neighbor"),
    }


def trainings(name: str, data: Data) -> dict[str, Training]:
    """Return what is trained on a graph: a GCN by all strategies, GAT by those that fit it."""
    setting = SETTINGS[name]
    gat, found = partial(Gat, hidden=8), sources(setting, data)
    of_gcn = {
        f"GCN, {strategy}": Training(partial(Gcn, hidden=setting.hidden, sampled=strategy in SAMPLED), *source, 0.01)
        for strategy, source in found.items()
    }
    of_gat = {
        f"GAT, {strategy}": Training(gat, *found[strategy], 0.005, decayed="all")
        for strategy in ((WHOLE, CLUSTERS, AROUND) if name == "cora" else (WHOLE,))
    }
    return of_gcn | of_gat


def records_of(case: str, system: str, accuracies: list[float], seconds: list[float]) -> list[Record]:
    """Return the records of one training with several seeds."""
    threads = torch.get_num_threads()
    percent = [100 * one for one in accuracies]
    deviation = stdev(percent) if len(percent) > 1 else 0.0
    return [
        summarised(BENCH, case, system, "test accuracy", "%", percent, threads),
        summarised(BENCH, case, system, "mean test accuracy", "%", [fmean(percent)], threads),
        summarised(BENCH, case, system, "its standard deviation", "points", [deviation], threads),
        summarised(BENCH, case, system, "time", "ms", [1000 * one for one in seconds], threads),
    ]


def differences(case: str, accuracies: dict[str, list[float]]) -> list[Record]:
    """Return by how many points mean accuracies differ that are to be compared, over the seeds that both have."""
    found = []
    for model in ("GCN", "GAT"):
        for strategy, other in DIFFERENCES:
            pair = [accuracies.get(f"{model}, {one}", []) for one in (strategy, other)]
            seeds = min(map(len, pair))
            if seeds:
                own, base = (fmean(one[:seeds]) for one in pair)
                system, threads = f"{model}, {strategy} less {other}", torch.get_num_threads()
                points = [100 * (own - base)]
                found.append(summarised(BENCH, case, system, "difference in accuracy", "points", points, threads))
    return found


def main() -> None:
    parser = arguments(__doc__ or "", rounds=1)
    add_data(parser)
    parser.add_argument("--graphs", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--seeds", type=int, default=20, help="of cora (default: %(default)s)")
    parser.add_argument("--other-seeds", type=int, default=4, help="of other graphs (default: %(default)s)")
    parser.add_argument("--epochs", type=int, help="fewer of them, to see that it runs")
    parser.add_argument("--threads", type=int, default=1, help="of torch (default: %(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(describe_machine(["headrace", "torch", "numpy"]) + "\n", flush=True)
    records: list[Record] = []
    for name in options.graphs:
        path = options.data / f"{name}.npz"
        if not path.exists():
            print(f"{name}: skipped, as there is no {path}")
            continue
        data = data_of(path)
        most = options.seeds if name == "cora" else options.other_seeds
        found: dict[str, list[float]] = {}
        for system, training in trainings(name, data).items():
            shortened = training if options.epochs is None else replace(training, epochs=options.epochs)
            seeds = most if system in CLAIMED else max(most // 4, 1)
            accuracies, seconds = zip(*(train(shortened, data, seed) for seed in range(seeds)), strict=True)
            found[system] = list(accuracies)
            of_system = records_of(name, system, found[system], list(seconds))
            published = PUBLISHED.get((name, system))
            line = f"{name}, {system}: {of_system[1].median:.2f} +- {of_system[2].median:.2f}, {seeds} seeds"
            print(line + (f"; published {published}" if published else ""), flush=True)
            records += of_system
        records += differences(name, found)
        write_json(options.json, records)  # what is there by now
    print_table(records)
    draw_bars(options.plot, records, "test accuracy")


if __name__ == "__main__":
    main()

"""Data sets of tests: a small one of every kind of array, with and without types."""

from __future__ import annotations

from pathlib import Path

import torch

import headrace as hr

BUYS, LIKES = ("user", "buys", "item"), ("user", "likes", "user")


def plain() -> dict:
    torch.manual_seed(1)
    src, dst = torch.randint(0, 40, (2, 200))
    graph = hr.Graph.from_coo(
        src, dst, num_nodes=40, edge_attrs={"weight": torch.rand(200)}, node_attrs={"time": torch.arange(40)}
    )
    x = torch.rand(40, 3)
    store = hr.FeatureStore(
        node={"x": x, "half": x.to(torch.bfloat16), "y": torch.arange(40) % 4, "mask": x[:, 0] > 0.5},
        edge={"e": torch.arange(200)},
    )
    split = hr.split_nodes((torch.arange(40), torch.arange(40) % 4), val=0.2, test=0.2, time=torch.arange(40))
    return {"graph": graph, "store": store, "items": split, "ids": {"node": [f"n{i * 7 % 40}é" for i in range(40)]}}


def typed() -> dict:
    torch.manual_seed(2)
    ends = {BUYS: (torch.randint(0, 9, (50,)), torch.randint(0, 12, (50,))), LIKES: torch.randint(0, 9, (2, 30))}
    times = {BUYS: {"time": torch.arange(50)}}
    graph = hr.Graph.from_coo(ends, num_nodes={"user": 9, "item": 12}, edge_attrs=times)
    store = hr.FeatureStore(
        node={"user": {"x": torch.rand(9, 2)}, "item": {"x": torch.rand(12, 5), "y": torch.arange(12)}},
        edge={BUYS: {"price": torch.rand(50)}},
    )
    items = {**hr.split_links(graph, edge_type=BUYS, time="time").items, "nodes": {"item": [0, 5], "user": [2]}}
    return {"graph": graph, "store": store, "items": items, "ids": {"item": torch.arange(12).flip(0) * 3}}


KINDS = {"plain": plain, "typed": typed}


def saved(folder: Path, kind: str = "plain") -> tuple[hr.Dataset, dict]:
    made = KINDS[kind]()
    hr.save_dataset(folder, **made, progress=False)
    return hr.open_dataset(folder), made

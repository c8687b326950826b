"""Plans as JSON: the same plan comes back over data that are given again, and nothing else is made of a config."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_plans import RandomPlan, random_plans

import headrace as hr

from plans import double, graph, items, store, unchanged


def there_and_back(plan: hr.Plan) -> hr.Plan:
    """The plan after a journey through text, over the data that its stages have."""
    config = json.loads(json.dumps(plan.config(), allow_nan=False))
    named: dict[str, dict[str, object]] = {"$graph": {}, "$store": {}, "$object": {}}
    given_items = None
    for entry, stage in zip(config["stages"], plan.stages, strict=True):
        for name, value in entry.items():
            if isinstance(value, dict) and "$items" in value:
                given_items = stage.items
            elif isinstance(value, dict) and set(value) & set(named):
                ((tag, own),) = value.items()
                named[tag][own] = getattr(stage, name)
    return hr.Plan.from_config(
        config, graphs=named["$graph"], stores=named["$store"], items=given_items, objects=named["$object"]
    )


@given(random_plans())
def test_every_plan_comes_back(described: RandomPlan) -> None:
    plan = described.build()
    back = there_and_back(plan)
    assert back == plan
    assert [type(stage) for stage in back.stages] == [type(stage) for stage in plan.stages]
    if described.source != "node_source":  # whose object has no content
        assert back.loader().state_dict() == plan.loader().state_dict()


def test_batches_of_a_config_continue_a_checkpoint():
    plan = items(batch_size=20).sample_layer_neighbor(graph(), [4, 3]).fetch_feature(store(), node=["x"], labels="y")
    loader = plan.loader()
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    wanted = [batch.digest() for batch in batches]
    config = json.loads(json.dumps(plan.config()))
    again = hr.Plan.from_config(config, graphs=graph(), stores=store(), items=plan.stages[0].items).loader()
    again.load_state_dict(state)
    assert [batch.digest() for batch in again] == wanted


def test_parameters_that_are_defaults_are_left_out():
    one, features = graph(), store()
    plan = (
        hr.ItemSampler(90, batch_size=8, seed=3)
        .sample_layer_neighbor(one, [4, -1], batch_dependency=math.inf)
        .fetch_feature(features, node="x", labels="y")
        .transform(double)
        .copy_to("cpu")
        .prefetch()
    )
    assert plan.config() == {
        "version": 1,
        "stages": [
            {"source": "item_sampler", "items": 90, "batch_size": 8, "seed": 3},
            {
                "verb": "sample_layer_neighbor",
                "graph": {"$graph": "graph"},
                "fanouts": [4, -1],
                "batch_dependency": {"$float": "inf"},
            },
            {"verb": "fetch_feature", "store": {"$store": "store"}, "node": ["x"], "labels": "y"},
            {"verb": "transform", "function": {"$object": "double"}},
            {"verb": "copy_to", "device": "cpu"},
            {"verb": "prefetch"},
        ],
    }
    assert there_and_back(plan) == plan


def typed_graph() -> hr.Graph:
    return hr.Graph.from_coo(
        {("user", "buys", "item"): ([0, 1], [1, 2]), ("item", "bought_by", "user"): ([1, 2], [0, 1])},
        num_nodes={"user": 3, "item": 4},
    )


def test_types_come_back():
    one = typed_graph()
    features = hr.FeatureStore(node={("user", "x"): torch.randn(3, 2), ("item", "x"): torch.randn(4, 2)})
    pairs = {("user", "buys", "item"): torch.tensor([[0, 1], [1, 2]])}
    plan = (
        hr.ItemSampler(pairs, batch_size=2, time={("user", "buys", "item"): [3, 4]}, edge_ids=None)
        .exclude_seed_edges(reverse={("user", "buys", "item"): ("item", "bought_by", "user")})
        .sample_neighbor(one, {"buys": [2, 1], "default": [1, 1]})
        .fetch_feature(features, node={"user": ["x"], "item": ["x"]})
    )
    assert there_and_back(plan) == plan
    assert plan.config()["stages"][1]["reverse"] == {
        "$map": [[["user", "buys", "item"], ["item", "bought_by", "user"]]]
    }


@pytest.mark.parametrize("counts", ["fanouts", "layer_sizes"])
def test_numbers_of_edge_types_are_those_of_their_names(counts):
    """A graph whose types are in another order has the same numbers by name."""
    buys, back = ("user", "buys", "item"), ("item", "bought_by", "user")
    ends = {buys: ([0, 1], [1, 2]), back: ([1, 2], [0, 1])}
    one, other = (
        hr.Graph.from_coo({name: ends[name] for name in order}, num_nodes={"user": 3, "item": 4})
        for order in ((buys, back), (back, buys))
    )
    source = hr.ItemSampler({"item": [0]}, seed=1)

    def sampled(graph: hr.Graph) -> hr.Plan:
        if counts == "fanouts":
            return source.sample_neighbor(graph, [{buys: 7, back: 2}, 3])
        return source.sample_ladies(graph, [{buys: 7, back: 2}, 3])

    config = json.loads(json.dumps(sampled(one).config()))
    assert config["stages"][1][counts][0] == {"$map": [[[*buys], 7], [[*back], 2]]}
    assert hr.Plan.from_config(config, graphs=other, items={"item": [0]}) == sampled(other)
    assert there_and_back(sampled(one)) == sampled(one)


def test_dtypes_come_back():
    plan = items().fetch_feature(store(), node=["x"], dtype=torch.float16)
    config = json.loads(json.dumps(plan.config()))
    assert config["stages"][-1]["dtype"] == {"$dtype": "float16"}
    assert there_and_back(plan) == plan
    config["stages"][-1]["dtype"] = {"$dtype": "save"}
    with pytest.raises(hr.PlanError, match=r"expected a value that plan.config\(\) writes, got \{'\$dtype': 'save'\}"):
        hr.Plan.from_config(config, stores=store(), items=[1])


def test_labels_by_type_come_back():
    one = typed_graph()
    features = hr.FeatureStore(node={("user", "y"): torch.arange(3), ("item", "z"): torch.arange(4)})
    sampled = hr.ItemSampler({"user": [0], "item": [1]}, batch_size=2).sample_neighbor(one, [2])
    for labels in ({"user": "y", "item": "z"}, {"user": "y"}):
        items = {name: [0] for name in labels}
        plan = hr.Plan([hr.ItemSampler(items, batch_size=2, seed=1), *sampled.stages[1:]])
        plan = plan.fetch_feature(features, labels=labels)
        assert there_and_back(plan) == plan


def test_numbers_of_numpy_become_those_of_json():
    plan = hr.ItemSampler(90, batch_size=np.int64(8), seed=np.int32(3)).sample_neighbor(graph(), [np.int64(2)])
    assert there_and_back(plan) == plan


def test_times_of_items_come_with_the_items():
    timed = hr.Items(torch.arange(4), times=torch.arange(4))
    plan = hr.ItemSampler(timed, batch_size=2, seed=1)
    config = plan.config()
    assert "time" not in config["stages"][0]
    assert hr.Plan.from_config(config, items=timed) == plan


def test_names():
    first, second = graph(), typed_graph()
    plan = hr.ItemSampler(4, batch_size=2, seed=1).sample_neighbor(first, [2])
    plan = plan.induce_subgraph(first)
    assert [stage.get("graph") for stage in plan.config()["stages"]] == [None, {"$graph": "graph"}, {"$graph": "graph"}]
    config = plan.config(graphs={"other": second, "papers": first})
    assert config["stages"][1]["graph"] == {"$graph": "papers"}
    assert hr.Plan.from_config(config, graphs={"papers": first, "unused": second}) == plan
    both = hr.ItemSampler(3, batch_size=2, seed=1).transform(unchanged).transform(lambda batch: batch)
    names = [stage["function"]["$object"] for stage in both.transform(double).config()["stages"][1:]]
    assert names == ["unchanged", "function", "double"]


class TestRefusals:
    """Each names what is missing or odd."""

    config = staticmethod(
        lambda: hr.ItemSampler(torch.arange(9), seed=1).sample_neighbor(graph(), [2]).transform(double).config()
    )

    def refused(self, match: str, config: object, **given: object) -> None:
        with pytest.raises(hr.PlanError, match=match):
            hr.Plan.from_config(config, **given)

    def test_missing_data(self):
        config, whole = self.config(), graph()
        self.refused("expected the items", config, graphs=whole, objects={"double": double})
        self.refused("expected the graph that the config calls 'graph', got none", config, items=[1])
        self.refused("calls 'graph', got 'papers'", config, items=[1], graphs={"papers": whole})
        self.refused("the object that the config calls 'double'", config, items=[1], graphs=whole)
        self.refused("^from_config: expected graphs= to hold graphs alone, got int", config, graphs={"graph": 3})
        self.refused("^from_config: expected graphs by name", config, graphs=3)

    def test_items_that_are_numbers(self):
        self.refused("expected no items=", hr.ItemSampler(9, seed=1).config(), items=[1])

    @pytest.mark.parametrize("odd", [None, 3, "{}", [], {}, {"version": 1}, {"version": 1, "stages": []}])
    def test_no_config(self, odd):
        self.refused("expected the dictionary", odd)

    def test_other_versions(self):
        self.refused("expected version 1 of configs, got 2", {**hr.ItemSampler(9, seed=1).config(), "version": 2})

    def test_unknown_names(self):
        source = {"source": "item_sampler", "items": 9, "seed": 1}
        self.refused("did you mean 'item_sampler'", {"version": 1, "stages": [{**source, "source": "item_samplr"}]})
        for verb in ("loader", "__class__", "then", "_end", 3, None):
            self.refused("expected the name of a verb", {"version": 1, "stages": [source, {"verb": verb}]})
        with pytest.raises(hr.PlanError, match="did you mean batch_size=") as error:
            hr.Plan.from_config({"version": 1, "stages": [{**source, "batch_sizes": 3}]})
        assert "item" in str(error.value).lower()

    def test_stages_without_a_verb(self):
        class Own(hr.ext.MapStage):
            name = "own"

            def runner(self, settings):
                raise AssertionError(settings)

        with pytest.raises(hr.PlanError, match="expected stages with a verb, got Own"):
            hr.ItemSampler(9).then(Own()).config()


ATOMS = st.none() | st.booleans() | st.integers(-3, 30) | st.floats() | st.text(max_size=6)
TAGS = st.sampled_from(["$graph", "$store", "$items", "$object", "$map", "$float", "$x", "x", "verb", "source"])
JSON = st.recursive(ATOMS, lambda of: st.lists(of, max_size=3) | st.dictionaries(TAGS, of, max_size=3), max_leaves=8)
NAMES = st.sampled_from(["items", "graph", "fanouts", "batch_size", "seed", "store", "node", "verb", "source"])
WORDS = st.sampled_from(["item_sampler", "global_batch", "sample_neighbor", "fetch_feature", "copy_to", "prefetch"])


@given(st.lists(st.dictionaries(NAMES, JSON | WORDS, max_size=4), max_size=3))
def test_any_config_is_a_plan_or_refused_by_name(stages):
    try:
        plan = hr.Plan.from_config({"version": 1, "stages": stages}, graphs=graph(), stores=store(), items=[1, 2])
    except hr.HeadraceError:
        return
    assert isinstance(plan, hr.Plan)


@pytest.mark.parametrize(
    ("noted", "others"),
    [
        (torch.arange(9), torch.arange(8)),
        (torch.arange(9), torch.arange(1_000)),
        (torch.arange(9), torch.arange(18).reshape(9, 2)),
        (torch.arange(9), (torch.arange(9), torch.zeros(9))),
        ((torch.arange(9), torch.zeros(9)), torch.arange(9)),
        (torch.tensor([True, False, True]), torch.tensor([True, False, False])),
        ({"user": [0, 1], "item": [2]}, {"user": [0, 1], "item": [2, 3]}),
    ],
)
def test_items_are_those_that_the_config_notes(noted, others):
    plan = hr.ItemSampler(noted, batch_size=2, seed=1)
    config = json.loads(json.dumps(plan.config()))
    assert hr.Plan.from_config(config, items=noted) == plan
    with pytest.raises(hr.PlanError, match=r"from_config: expected the items of which the config was written, \d"):
        hr.Plan.from_config(config, items=others)


def test_items_of_each_rank_may_be_as_many_as_it_has():
    config = hr.ItemSampler([3, 4, 5], batch_size=2, seed=1, items_per_rank=True).config()
    assert len(hr.Plan.from_config(config, items=[6, 7]).stages[0].items) == 2
    with pytest.raises(hr.PlanError, match="3 items, got 2 pairs"):
        hr.Plan.from_config(config, items=torch.tensor([[6, 7], [1, 2]]))


def test_a_text_that_a_reader_has_written_is_not_compared():
    config = hr.ItemSampler([3, 4], batch_size=2, seed=1).config()
    config["stages"][0]["items"] = {"$items": "those of training"}
    assert len(hr.Plan.from_config(config, items=[3, 4, 5]).stages[0].items) == 3

"""Verbs that users register: classes of stages, under names that neither plans nor sources have."""

from __future__ import annotations

import pytest

import headrace as hr

from plans import graph, items, store


class Own(hr.ext.MapStage):
    def runner(self, settings):
        return lambda batch: (batch, {})


@pytest.mark.parametrize("name", ["seed", "batch_size", "shuffle", "num_nodes", "writes", "node"])
def test_refuses_names_of_attributes_of_sources(name):
    with pytest.raises(hr.PlanError, match=f"which is a plan, has an attribute '{name}'"):
        hr.ext.verb(name)(Own)


@pytest.mark.parametrize(("stage", "kind"), [(dict, "dict"), (lambda self: self, "function"), (Own(), "Own")])
def test_refuses_what_is_no_class_of_stages(stage, kind):
    with pytest.raises(hr.PlanError, match=f"expected a class of stages to register as 'own_verb'.*got {kind}"):
        hr.ext.verb("own_verb")(stage)


def test_a_parameter_called_self_is_refused_by_name():
    config = hr.ItemSampler(20).sample_neighbor(graph(), [2]).config()
    config["stages"][1]["self"] = 7
    with pytest.raises(hr.PlanError, match="got self="):
        hr.Plan.from_config(config, graphs=graph())


@pytest.mark.parametrize("name", ["graphs", "stores"])
def test_none_among_named_data_is_refused(name):
    config = items().sample_neighbor(graph(), [2]).fetch_feature(store(), node=["x"]).config()
    data = {"graphs": {"graph": graph()}, "stores": {"store": store()}}
    with pytest.raises(hr.PlanError, match="alone, got NoneType"):
        hr.Plan.from_config(config, **{**data, name: {"other": None}})

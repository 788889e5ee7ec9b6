"""The presets of params.yaml: each fits environments of its kind, says where it is from, and has the published networks."""

import math
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from pipelines.params import load_params
from rl_datasets.schema import ArraySpec, EnvSpec, NextAction, Transition
from trainer.learner import load_learner

ROOT = Path(__file__).parents[2]
PARAMS = load_params(ROOT / "params.yaml")
KINDS = {  # observation and action of D4RL's environments by the last word of a preset's name
    "locomotion": EnvSpec("HalfCheetah-v2", ArraySpec((17,), "float32"), ArraySpec((6,), "float32", -1, 1)),
    "antmaze": EnvSpec("AntMaze-v2", ArraySpec((29,), "float32"), ArraySpec((8,), "float32", -1, 1)),
    "adroit": EnvSpec("Pen-v1", ArraySpec((45,), "float32"), ArraySpec((24,), "float32", -1, 1)),
    "cartpole": EnvSpec("CartPole-v1", ArraySpec((4,), "float32"), ArraySpec((), "int64", 0, 1, num_values=2)),
    "pendulum": EnvSpec("Pendulum-v1", ArraySpec((3,), "float32"), ArraySpec((1,), "float32", -2, 2)),
}
OWN = ("cartpole", "pendulum")  # not published elsewhere
PRESETS = [(algorithm, preset) for algorithm, presets in PARAMS.learners.items() for preset in presets]


@cache
def state_shapes(algorithm: str, preset: str) -> Any:
    learner = load_learner(algorithm).Learner(PARAMS.preset(algorithm, preset), KINDS[preset.rpartition("_")[2]], 1000)
    return learner, jax.eval_shape(learner.init, jax.random.key(0))


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "preset"), PRESETS)
def test_a_preset_makes_a_learner_for_environments_of_its_kind(algorithm: str, preset: str) -> None:
    learner, state = state_shapes(algorithm, preset)
    size, spec = 4, learner.spec

    def batch(leaf: ArraySpec) -> Any:
        return jax.ShapeDtypeStruct((size, *leaf.shape), jax.dtypes.canonicalize_dtype(leaf.dtype))

    scalar = jax.ShapeDtypeStruct((size,), np.float32)
    now, following = batch(spec.observation), NextAction(batch(spec.action), scalar)
    transition = Transition(now, batch(spec.action), scalar, scalar, now, following)
    after, metrics = jax.eval_shape(learner.update, state, transition)
    assert jax.tree.structure(after) == jax.tree.structure(state)
    assert all(metric.shape == () for metric in metrics.values())


@pytest.mark.parametrize(("algorithm", "preset"), [pair for pair in PRESETS if pair[1] not in OWN])
def test_a_published_preset_names_its_source(algorithm: str, preset: str) -> None:
    text = (ROOT / "params.yaml").read_text(encoding="utf-8")
    (block,) = re.findall(rf"^  {algorithm}:\n((?:    .*\n)+)", text.split("\nlearners:\n")[1].split("\nexperiments:\n")[0], re.MULTILINE)
    (comment,) = re.findall(rf"^    {preset}:  # (.*)$", block, re.MULTILINE)
    assert re.search(r"\.(py|yaml|md)\b", comment), "a file"
    assert "github.com/" in comment or comment.startswith("the same, "), "a repository, or that of the preset above"


def weights(algorithm: str, preset: str, network: str) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(state_shapes(algorithm, preset)[1].params[network]))


def layers(*widths: int) -> int:
    """The number of weights and biases of a fully connected network."""
    return sum((a + 1) * b for a, b in pairwise(widths))


@pytest.mark.parametrize("preset", ["locomotion", "corl_locomotion", "jax_corl_locomotion"])
def test_iqls_networks_are_the_published_ones(preset: str) -> None:
    normalised = 2 * 256 * 2 if preset == "jax_corl_locomotion" else 0  # a scale and a bias for each unit
    assert weights("iql", preset, "value") == layers(17, 256, 256, 1) + normalised
    assert weights("iql", preset, "critic") == 2 * layers(23, 256, 256, 1)
    assert weights("iql", preset, "policy") == layers(17, 256, 256, 6) + 6


def test_cqls_networks_are_the_published_ones() -> None:
    assert weights("cql", "locomotion", "critic") == 2 * layers(23, 256, 256, 256, 1)
    assert weights("cql", "locomotion", "policy") == layers(17, 256, 256, 256, 12)
    assert weights("cql", "corl_antmaze", "critic") == 2 * layers(37, 256, 256, 256, 256, 256, 1)
    assert weights("cql", "corl_antmaze", "policy") == layers(29, 256, 256, 256, 16) + 2
    assert weights("cql", "jax_corl_locomotion", "critic") == 2 * layers(23, 256, 256, 1)
    assert weights("cql", "jax_corl_locomotion", "policy") == layers(17, 256, 256, 12) + 2

"""Encoders by name: what each makes of its leaf, and the messages where it does not fit."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trainer.modules
from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec
from trainer.encoders import Embedding, Encoder, Impala, LeafEncoder, OneHot, Pixels, default_encoder, leaf_encoders, to_image
from trainer.learner import load_learner

CAMERA = ArraySpec((16, 12, 3), "uint8", 0, 255)
CELL = ArraySpec((), "int64", 3, 6, num_values=4)
NESTED = {"camera": CAMERA, "cell": CELL, "depth": ArraySpec((2, 8, 8), "float32"), "state": ArraySpec((5,), "float32")}
SPEC = EnvSpec("Toy-v0", NESTED, ArraySpec((1,), "float32", -1, 1))
CODE = """
import flax.linen as nn

class Half(nn.Module):
    spec: object
    features: int = 6

    @nn.compact
    def __call__(self, leaf):
        return nn.Dense(self.features)(leaf)

class Scalar(Half):
    def __call__(self, leaf):
        return leaf.sum(-1)
"""


@pytest.fixture(autouse=True)
def views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "views.py").write_text(CODE)
    monkeypatch.setattr(trainer.modules, "__path__", [*trainer.modules.__path__, str(tmp_path)])
    yield
    sys.modules.pop("trainer.modules.views", None)


def encoders(spec: EnvSpec = SPEC, **chosen: Any) -> tuple[LeafEncoder, ...]:
    params = load_learner("bc").Params(encoders={name.replace("__", "/"): value for name, value in chosen.items()})
    return leaf_encoders(params, spec)


def test_a_leaf_enters_by_its_spec_unless_it_is_named() -> None:
    assert [default_encoder(leaf) for leaf in NESTED.values()] == ["atari", "one_hot", "flat", "flat"]
    chosen = encoders(observation__camera="impala", observation__cell={"module": "embedding", "options": {"features": 3}})
    assert [leaf.make().__class__.__name__ for leaf in chosen] == ["Impala", "Embedding", "Flat", "Flat"]


def test_an_observation_of_image_category_and_vectors_becomes_one_row_of_features_a_state() -> None:
    chosen = encoders(
        observation__camera={"module": "impala", "options": {"channels": [4, 8], "features": 10}},
        observation__cell={"module": "embedding", "options": {"features": 3}},
        observation__depth={"module": "atari", "options": {"channels_first": True, "features": 7}},
        observation__state={"module": "trainer.modules.views:Half", "options": {"features": 2}},
    )
    rng = np.random.default_rng(0)
    observation = {
        "camera": rng.integers(0, 256, (3, 16, 12, 3)).astype(np.uint8),
        "cell": np.asarray([3, 6, 4]),
        "depth": rng.normal(size=(3, 2, 8, 8)).astype(np.float32),
        "state": rng.normal(size=(3, 5)).astype(np.float32),
    }
    found, variables = jax.jit(Encoder(chosen).init_with_output)(jax.random.key(0), observation)
    assert found.shape == (3, 10 + 3 + 7 + 2)
    table = variables["params"]["Embedding_0"]["Embed_0"]["embedding"]
    np.testing.assert_array_equal(found[:, 10:13], table[np.asarray([0, 3, 1])])
    assert {"Impala_0", "Pixels_0", "Half_0"} < set(variables["params"])


@pytest.mark.parametrize(("module", "width"), [(OneHot(4, 3), 4), (Embedding(4, 3, 2), 2)])
def test_a_category_counts_from_its_first_value(module: Any, width: int) -> None:
    found = module.init_with_output(jax.random.key(0), jnp.asarray([3, 6]))[0]
    assert found.shape == (2, width)
    if width == 4:
        np.testing.assert_array_equal(found, [[1, 0, 0, 0], [0, 0, 0, 1]])


def test_frames_and_first_axes_become_channels() -> None:
    def image(*shape: int, channels_first: bool = False) -> tuple[np.ndarray, np.ndarray]:
        array = np.arange(2 * np.prod(shape)).reshape(2, *shape).astype(np.float32)
        return array, np.asarray(to_image(jnp.asarray(array), channels_first))

    array, found = image(4, 5)
    np.testing.assert_array_equal(found, array[..., None])
    array, found = image(4, 5, 2)
    np.testing.assert_array_equal(found, array)
    array, found = image(2, 4, 5, channels_first=True)
    np.testing.assert_array_equal(found, array.transpose(0, 2, 3, 1))
    array, found = image(3, 4, 5, 2)
    np.testing.assert_array_equal(found, np.concatenate([array[:, frame] for frame in range(3)], axis=-1))


def test_bytes_are_scaled_and_floats_are_not() -> None:
    np.testing.assert_allclose(to_image(jnp.asarray([[[[51], [255]]]], jnp.uint8), False).ravel(), [0.2, 1.0], rtol=1e-6)
    assert to_image(jnp.full((1, 1, 1, 1), 51.0), False).item() == 51.0


@pytest.mark.parametrize("module", [Pixels, Impala])
def test_a_small_or_large_image_becomes_features(module: Any) -> None:
    for side in (8, 84):
        shape = jax.eval_shape(lambda s=side: module(features=9).init_with_output(jax.random.key(0), jnp.zeros((2, s, s, 4), jnp.uint8))[0])
        assert shape.shape == (2, 9)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"observation__lidar": "flat"}, r"encoders names observation/lidar, but .*'Toy-v0' has: observation/camera, observation/cell"),
        (
            {"observation__cell": "resnet"},
            r"encoders.observation/cell: there is no encoder 'resnet'. Known: flat, one_hot, embedding, atari",
        ),
        ({"observation__state": "one_hot"}, r"'one_hot' takes a category, but the leaf is float32\[5\]"),
        ({"observation__state": "impala"}, r"'impala' takes an image of 2 to 4 axes, but the leaf is float32\[5\]"),
        (
            {"observation__cell": {"module": "embedding", "options": {"width": 3}}},
            r"found the options {'width': 3}, but 'embedding' takes: features",
        ),
        ({"observation__state": "trainer.modules.views:Scalar"}, r"it returns float32\[2\], but float\[2, any\] is expected"),
        ({"observation__camera": {"module": "atari", "options": {"features": "many"}}}, r"encoders.observation/camera: calling it on"),
    ],
)
def test_an_encoder_that_does_not_fit_is_refused(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(HindcastError, match=message):
        encoders(**chosen)

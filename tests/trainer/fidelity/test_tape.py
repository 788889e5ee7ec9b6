"""The tape that the references stand on, against central differences."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from tests.trainer.fidelity import tape
from tests.trainer.fidelity.tape import Var

MASK = np.asarray([[True, False, True], [False, True, True]])
LOSSES: dict[str, Callable[[Any], Var]] = {
    "arithmetic": lambda w: ((w["a"] - 2.0 * w["b"]) / (w["c"] ** 2 + 1.0) + (1.0 - w["a"]) * w["b"]).sum(),
    "broadcasting": lambda w: ((w["a"] * w["row"] + w["scalar"]) * w["column"]).mean(),
    "product": lambda w: (tape.tanh(w["batch"] @ w["matrix"]) ** 2).sum(),
    "transpose": lambda w: ((w["a"].T @ w["b"]) ** 2).sum(),
    "log and exp": lambda w: (tape.log(tape.exp(w["a"]) + 1.0) * w["b"]).sum(),
    "where and clip": lambda w: (tape.where(MASK, w["a"], w["row"]) * tape.clip(w["b"], -0.5, 0.5)).sum(),
    "index": lambda w: (w["a"][:, [0, 0, 2]] * w["b"]).sum(),
    "join": lambda w: (tape.concatenate([w["a"], w["column"]], 1) ** 2).sum() + (tape.stack([w["a"], w["b"]]) ** 3).sum(),
    "extremes": lambda w: (tape.smallest(w["a"]) * tape.largest(w["b"])).sum() + tape.minimum(w["a"], w["b"]).sum(),
    "logsumexp": lambda w: (tape.logsumexp(40.0 * w["a"], 1) ** 2).sum(),
    "softplus": lambda w: (tape.softplus(300.0 * w["a"]) * w["b"]).sum(),
    "relu and sums": lambda w: (tape.relu(w["a"]).sum(axis=0) * w["b"].mean(axis=1, keepdims=True)).sum(),
}


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"a": (2, 3), "b": (2, 3), "c": (2, 3), "row": (3,), "column": (2, 1), "scalar": (), "batch": (2, 4, 3), "matrix": (3, 5)}
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def differences(loss: Callable[[Any], Var], at: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    grads = {name: np.zeros_like(array) for name, array in at.items()}
    for name, array in at.items():
        for index in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                moved = array.copy()
                moved[index] += sign * 1e-5
                ends.append(loss(jax.tree.map(Var, {**at, name: moved})).value)
            grads[name][index] = (ends[0] - ends[1]) / 2e-5
    return grads


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_central_differences(name: str) -> None:
    _, grads = tape.gradient(LOSSES[name], weights())
    for key, expected in differences(LOSSES[name], weights()).items():
        np.testing.assert_allclose(grads[key], expected, rtol=1e-7, atol=1e-7, err_msg=key)


def test_no_gradient_passes_what_is_stopped() -> None:
    value, grads = tape.gradient(lambda w: (tape.stop(w["a"]) * w["b"]).sum(), weights())
    assert value == pytest.approx((weights()["a"] * weights()["b"]).sum())
    assert not grads["a"].any()
    np.testing.assert_array_equal(grads["b"], weights()["a"])

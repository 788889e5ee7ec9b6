"""Trains d3rlpy's learners on arrays and plays their policies. Runs in an environment of its own.

usage: python d3rlpy_returns.py <arrays.npz> <job.json>; writes the returns [seeds, episodes] as JSON to standard output.

The arrays are transitions as the learner is to see them: observations normalised, rewards scaled, actions in [-1, 1] or counted from
zero. The job holds the learner's class, its options and optimisation, and how an observation of the environment is normalised.
"""

import contextlib
import json
import os
import sys

import d3rlpy
import gymnasium
import numpy as np
import torch
from d3rlpy.dataset import TransitionMiniBatch
from d3rlpy.models.encoders import VectorEncoderFactory


def learner(job: dict, observation: np.ndarray, actions: int):
    config = getattr(d3rlpy.algos, job["config"])
    encoders = [field for field in config.__dataclass_fields__ if field.endswith("encoder_factory")]
    algo = config(**job["options"], **{name: VectorEncoderFactory(job["hidden_sizes"]) for name in encoders}).create(device="cpu:0")
    algo.create_impl(observation.shape[1:], actions)
    return algo


def train(job: dict, arrays: dict[str, np.ndarray], seed: int):
    d3rlpy.seed(seed)
    action = arrays["action"]
    algo = learner(job, arrays["observation"], job["num_actions"] or action.shape[1])
    rng, ones = np.random.default_rng(seed), np.ones((job["options"]["batch_size"], 1), np.float32)
    for _ in range(job["updates"]):
        rows = rng.integers(len(action), size=len(ones))
        now, following = arrays["observation"][rows], arrays["next_observation"][rows]
        reward, terminal = arrays["reward"][rows, None], 1 - arrays["discount"][rows, None]
        algo.update(TransitionMiniBatch(now, action[rows], reward, following, action[rows], terminal, ones, transitions=[]))
    return algo


def play(job: dict, algo) -> list[float]:
    """The returns of all episodes, which are played side by side."""
    environments = [gymnasium.make(job["env_id"], max_episode_steps=job["max_episode_steps"]) for _ in job["environment_seeds"]]
    observation = np.array([env.reset(seed=seed)[0] for env, seed in zip(environments, job["environment_seeds"], strict=True)])
    returns, going = np.zeros(len(environments)), np.ones(len(environments), bool)
    matrix, offset = (np.asarray(job[name], np.float32) for name in ("matrix", "offset"))
    while going.any():
        action = algo.predict((observation @ matrix + offset).astype(np.float32))
        for index in np.flatnonzero(going):
            taken = int(action[index]) if job["num_actions"] else job["half"] * np.clip(action[index], -1, 1)
            observation[index], reward, terminated, truncated, _ = environments[index].step(taken)
            returns[index] += reward
            going[index] = not (terminated or truncated)
    return returns.tolist()


def main(arrays_path: str, job_path: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(sys.stderr), open(job_path) as file:  # the library logs there
        job, arrays = json.load(file), dict(np.load(arrays_path))
        json.dump([play(job, train(job, arrays, seed)) for seed in job["seeds"]], answers)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Hindcast from Python, without DVC: train a learner on an RLDS directory, evaluate, save, load and act.

    policy = train("data/pendulum/1.0.0", "td3_bc", updates=10_000, hidden_sizes=[64, 64])
    returns = evaluate(policy, episodes=20)
    told = estimate(policy, "data/pendulum/1.0.0")  # by the data alone, where there is no environment
    print(told.value, told.behaviour, told.calibration, *told.flags(), sep="\n")
    policy.save("swing_up")
    load_policy("swing_up").act(observation)

Nothing here is done otherwise than in the stages, and equal arguments on equal data give equal policies, bit for bit on a CPU.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rl_datasets.digest import DatasetDigest, combined_digest
from rl_datasets.errors import HindcastError
from rl_datasets.files import read_json
from rl_datasets.manifest import FILE_NAME as MANIFEST
from rl_datasets.manifest import read_manifest
from rl_datasets.rlds import RldsReader
from rl_datasets.schema import EnvSpec, named_leaves
from rl_datasets.stats import FILE_NAME as STATISTICS
from rl_datasets.stats import RunningStatistics
from rl_datasets.stream import open_stream
from rl_datasets.validation import validated
from trainer import loop
from trainer.bundle import Bundle, Dataset, load_bundle, make_bundle
from trainer.data import training_feed, validation_batches
from trainer.fitted_q.params import FittedQParams
from trainer.fitted_q.summary import Estimate
from trainer.learner import LearnerParams, load_learner
from trainer.points import TRAIN, Row
from trainer.preprocessing import make_preprocessor

__all__ = ["Bundle", "Estimate", "estimate", "evaluate", "load_policy", "train"]

load_policy = load_bundle
HELD_OUT = "test"  # the split whose episodes nothing is learnt from


def train(
    path: Path | str,
    algorithm: str,
    *,
    updates: int,
    batch_size: int = 256,
    seed: int = 0,
    split: str | None = None,
    spec: EnvSpec | None = None,
    memory_cap_mb: int = 2048,
    readers: int = 2,
    log_every: int = 500,
    watch: Callable[[Sequence[Row]], None] | None = None,
    **params: Any,
) -> Bundle:
    """Returns the policy that a learner of trainer/learners/ comes to after so many updates on batches of so many transitions.

    `path` holds an RLDS data set, ours or anybody's: a folder with dataset_info.json. `split` is by default `train`, or the only
    one there is. Statistics to normalise by are those of stats.json, or are computed in one pass. `spec` stands in for the data's
    own where these do not tell an action's bounds or number of values, as foreign ones do not; `rl_datasets.environments.env_spec`
    makes it from an environment. Above `memory_cap_mb` megabytes the data are shuffled by windows of shards.

    `params` are hyper-parameters of the learner, as a preset in params.yaml has them; the others keep the learner's defaults.
    Rewards and observations are given raw and transformed as the hyper-parameters say. `watch` gets all points of the curves so
    far (means over `log_every` updates, and the losses on a split `validation` where there is one) after each new one.

    Raises HindcastError in one sentence or two where the data, the learner or a hyper-parameter is not there or does not fit, and
    where training gives a number that is not finite.
    """
    path, module = Path(path), load_learner(algorithm)
    preset: LearnerParams = validated(module.Params, params, "", f"Hyper-parameters of {algorithm}")
    reader = RldsReader(path)
    chosen = _split_of(reader, split)
    known = _fitting(reader, spec)
    statistics, dataset = _statistics(reader, chosen)
    options: dict[str, Any] = {"readers": readers, "memory_cap_mb": memory_cap_mb, "next_action": preset.NEXT_ACTION}
    learner = module.Learner(preset, known, updates)
    preprocessor = make_preprocessor(preset, known, statistics)
    stream = open_stream(path, chosen, batch_size=batch_size, **options)
    feed, _ = training_feed(stream, known, (seed,), batch_size, "auto")
    fitted = loop.fit(
        learner,
        preprocessor,
        feed,
        loop.Plan((seed,), updates, log_every),
        validation=validation_batches(path, batch_size, options),
        hooks=loop.Hooks(watch=watch),
    )
    return make_bundle(
        spec=known,
        algorithm=algorithm,
        params=preset,
        updates=updates,
        seed=seed,
        preprocessor=preprocessor,
        policy=fitted.policies[0],
        dataset=dataset,
    )


def evaluate(policy: Bundle, *, episodes: int = 20, seed: int = 0, make_env: Callable[[], Any] | None = None) -> np.ndarray:
    """Returns the undiscounted returns [episodes], float64, of the deterministic policy in fresh environments.

    Environments are made by the policy's spec, or by `make_env`, which takes no argument and returns a Gymnasium environment.
    Equal seeds give the same starting states to all policies. Raises HindcastError where the environment cannot be made or fails.
    """
    from rl_datasets.environments import make_env as make  # Gymnasium and its simulators, only for those who evaluate
    from trainer.evaluation import evaluate_policy

    spec = policy.spec
    maker = make_env or (lambda: make(spec.env_id, spec.env_kwargs, spec.max_episode_steps))
    return np.array([row.episode_return for row in evaluate_policy(policy.act, maker, episodes=episodes, seed=seed)])


def estimate(
    policy: Bundle,
    path: Path | str,
    *,
    split: str | None = None,
    held_out: str | None = None,
    seed: int = 0,
    memory_cap_mb: int = 2048,
    readers: int = 2,
    **options: Any,
) -> Estimate:
    """Returns the discounted return of the deterministic policy as logged data tell it, by fitted Q evaluation (trainer/fitted_q).

    Critics learn on `split` of the RLDS directory `path` and are averaged over the initial states of `held_out`; by default the
    splits `train` and `test`, or the only one there is for both. `options` are those of `evaluate.fitted_q` in params.yaml, such as
    gamma and updates. Equal arguments give equal numbers. The estimate's `flags()` say what speaks against it.

    Raises HindcastError where a split is not there, the data are of other arrays than the policy, or an option is wrong.
    """
    from trainer.fitted_q.estimate import estimate_returns

    reader = RldsReader(Path(path))
    params = validated(FittedQParams, options, "", "Options of fitted Q evaluation")
    _fitting(reader, policy.spec)
    chosen = _split_of(reader, split)
    told_by = held_out or (HELD_OUT if HELD_OUT in reader.splits else chosen)
    statistics, _ = _statistics(reader, chosen)
    told = {"train": chosen, "held_out": told_by, "readers": readers, "memory_cap_mb": memory_cap_mb}
    return estimate_returns([policy], reader.path, statistics, params, seed=seed, **told)  # type: ignore[arg-type]


def _split_of(reader: RldsReader, split: str | None) -> str:
    """The split to train on."""
    if split is not None:
        return split
    if TRAIN not in reader.splits and len(reader.splits) != 1:
        raise HindcastError(
            f"{reader.path} has the splits {', '.join(reader.splits) or 'none'}, but '{TRAIN}' or a single one is expected. Name one."
        )
    return TRAIN if TRAIN in reader.splits else reader.splits[0]


def _fitting(reader: RldsReader, spec: EnvSpec | None) -> EnvSpec:
    """The spec that stands in for the data's own, or that one. Raises HindcastError where they are not of the same arrays."""
    if spec is None:
        return reader.spec.without_step_metadata()
    found, given = ([*named_leaves(s.observation, "observation"), ("action", s.action)] for s in (reader.spec, spec))
    arrays, wanted = ([f"{name} {leaf.dtype}{list(leaf.shape)}" for name, leaf in leaves] for leaves in (found, given))
    if arrays != wanted:
        raise HindcastError(
            f"{reader.path} holds {', '.join(arrays)}, but the spec that was given says {', '.join(wanted)}. Give one of the same arrays."
        )
    return spec


def _statistics(reader: RldsReader, split: str) -> tuple[dict[str, Any], Dataset]:
    """What stats.json says, or would say, of a split, and which data these are. One pass over the data where files do not tell both."""
    path = reader.path
    name, version = path.parent.name, path.name
    if split == TRAIN and (path / STATISTICS).is_file() and (path / MANIFEST).is_file():
        return read_json(path / STATISTICS, "observation", "reward", "episode_return"), Dataset(name, version, read_manifest(path).digest)
    running, digest = RunningStatistics(reader.spec), DatasetDigest()
    for episode in reader.episodes_of(reader.shards(split)):
        running.add(episode)
        digest.add(episode)
    result = running.result()
    if result is None:
        raise HindcastError(f"{path}, split '{split}', has no episodes. Name another split, or collect some.")
    return result.to_json(), Dataset(name, version, combined_digest({split: digest.hexdigest()}))

"""Each planted fault is found by the right check, at the right episode and step, and clean data raises nothing."""

import dataclasses
import math
from collections.abc import Iterable

import numpy as np
import pytest

from rl_datasets.checks import CheckParams, Expected, Report
from rl_datasets.checks import run_checks as run_on
from rl_datasets.checks.catalogue import CATALOGUE
from rl_datasets.recorded import Recorded
from rl_datasets.schema import ArraySpec, EnvSpec, Episode

BOX = EnvSpec(
    "Toy-v0",
    observation=ArraySpec((2,), "float32", minimum=(-1000.0, -math.inf), maximum=(1000.0, math.inf)),
    action=ArraySpec((2,), "float32", minimum=-2.0, maximum=2.0),
    reward_range=(-1.0, 1.0),
    max_episode_steps=9,
)
CATEGORY = EnvSpec("Toy-v1", observation=ArraySpec((), "int64", 0, 499, num_values=500), action=ArraySpec((), "int64", 0, 2, num_values=3))
NESTED = EnvSpec(
    "Toy-v2",
    observation={"camera": ArraySpec((8, 8, 3), "uint8", 0, 255), "hand": (ArraySpec((1,), "float32"), ArraySpec((), "float64"))},
    action=ArraySpec((), "int64", 0, 2, num_values=3),
)


def run_checks(episodes: Iterable[Episode], spec: EnvSpec, params: CheckParams, flags: Iterable[np.ndarray] | None = None) -> Report:
    items = episodes if flags is None else map(Recorded, episodes, flags)
    return run_on(items, Expected.of(spec), params)


def episode(index: int, length: int, spec: EnvSpec = BOX, is_terminal: bool = True) -> Episode:
    """Every leaf counts up from 100 * index, so 203 is step 3 of episode 2 (of actions and rewards, a fraction of it)."""
    count = np.arange(length + 1) + 100 * index

    def fill(leaf: ArraySpec, values: np.ndarray) -> np.ndarray:
        return np.broadcast_to(values.reshape(-1, *[1] * len(leaf.shape)), (length + 1, *leaf.shape)).astype(leaf.dtype)

    if spec is NESTED:
        camera, (hand, depth) = spec.observation["camera"], spec.observation["hand"]
        observation = {"camera": fill(camera, count % 256), "hand": (fill(hand, count), fill(depth, count))}
    else:
        observation = fill(spec.observation, count)
    action = fill(spec.action, count % 3 if spec.action.is_discrete else count / 1000)
    reward, discount = (count / 1000).astype(np.float32), np.ones(length + 1, np.float32)
    action[-1], reward[-1], discount[-1] = 0, 0, 0
    if is_terminal:
        discount[-2] = 0
    metadata = {"seed": index, "policy": "random" if index % 2 else "scripted", "environment": spec.env_id}
    return Episode(f"toy-{index}", observation, action, reward, discount, is_terminal, metadata)


def clean(spec: EnvSpec = BOX) -> list[Episode]:
    return [episode(index, 3 + index, spec, is_terminal=index % 2 == 0) for index in range(5)]


def changed(index: int, spec: EnvSpec = BOX, **fields: object) -> list[Episode]:
    """The clean episodes with fields of one replaced."""
    episodes = clean(spec)
    episodes[index] = dataclasses.replace(episodes[index], **fields)  # type: ignore[arg-type]
    return episodes


def with_value(index: int, field: str, position: object, value: float, spec: EnvSpec = BOX) -> list[Episode]:
    array = getattr(clean(spec)[index], field).copy()
    array[position] = value
    return changed(index, spec, **{field: array})


def other(index: int, field: str, function: object, spec: EnvSpec = BOX) -> list[Episode]:
    return changed(index, spec, **{field: function(getattr(clean(spec)[index], field))})  # type: ignore[operator]


def camera_of(dtype: str) -> dict[str, object]:
    observation = clean(NESTED)[2].observation
    return {**observation, "camera": observation["camera"].astype(dtype)}


def deep(value: float) -> dict[str, object]:
    observation = clean(NESTED)[1].observation
    depth = observation["hand"][1].copy()
    depth[2] = value
    return {**observation, "hand": (observation["hand"][0], depth)}


# (name, episodes, spec, check, episode id, step, words of the finding)
FAULTS = [
    ("nan observation", with_value(2, "observation", (3, 1), math.nan), BOX, "finite", "toy-2", 3, "observation[1] = nan"),
    ("infinite observation", with_value(2, "observation", (5, 1), math.inf), BOX, "finite", "toy-2", 5, "observation[1] = inf"),
    ("nan action", with_value(1, "action", (0, 0), math.nan), BOX, "finite", "toy-1", 0, "action[0] = nan"),
    ("infinite reward", with_value(4, "reward", 6, -math.inf), BOX, "finite", "toy-4", 6, "reward = -inf"),
    ("nan discount", with_value(4, "discount", 1, math.nan), BOX, "finite", "toy-4", 1, "discount = nan"),
    ("nan nested", changed(1, NESTED, observation=deep(math.nan)), NESTED, "finite", "toy-1", 2, "observation/hand/1 = nan"),
    ("action above", with_value(3, "action", (4, 1), 2.001), BOX, "action_bounds", "toy-3", 4, "action[1] = 2.00"),
    ("action below", with_value(3, "action", (2, 0), -7), BOX, "action_bounds", "toy-3", 2, "action[0] = -7"),
    ("category above", with_value(3, "action", 5, 3, CATEGORY), CATEGORY, "action_bounds", "toy-3", 5, "between 0 and 2"),
    ("category below", with_value(3, "action", 0, -1, CATEGORY), CATEGORY, "action_bounds", "toy-3", 0, "action = -1"),
    ("observation above", with_value(0, "observation", (1, 0), 1001), BOX, "observation_bounds", "toy-0", 1, "between -1000 and 1000"),
    ("state above", with_value(4, "observation", 7, 500, CATEGORY), CATEGORY, "observation_bounds", "toy-4", 7, "observation = 500"),
    ("reward above", with_value(1, "reward", 2, 1.5), BOX, "reward_range", "toy-1", 2, "reward 1.5"),
    ("reward below", with_value(1, "reward", 3, -1.01), BOX, "reward_range", "toy-1", 3, "between -1 and 1"),
    ("terminal with discount", with_value(2, "discount", 4, 1), BOX, "discount", "toy-2", 4, "leads into a terminal state"),
    ("truncated as terminal", with_value(1, "discount", 3, 0), BOX, "discount", "toy-1", 3, "doesn't lead into a terminal state"),
    ("discount inside", with_value(2, "discount", 1, 0), BOX, "discount", "toy-2", 1, "discount 0"),
    ("fractional discount", with_value(2, "discount", 0, 0.99), BOX, "discount", "toy-2", 0, "discount 0.99"),
    ("terminal flag lost", changed(2, is_terminal=False), BOX, "discount", "toy-2", 4, "expected 1"),
    ("last action", with_value(2, "action", (5, 1), 1), BOX, "last_step", "toy-2", 5, "action [0.0, 1.0]"),
    ("last reward", with_value(2, "reward", 5, 1), BOX, "last_step", "toy-2", 5, "reward 1.0"),
    ("last discount", with_value(1, "discount", 4, 1), BOX, "last_step", "toy-1", 4, "discount 1.0"),
    ("too long", [*clean(), episode(7, 10)], BOX, "lengths", "toy-7", 9, "10 transitions"),
    ("no transition", [*clean(), episode(7, 1)], BOX, "lengths", "toy-7", None, "1 step"),
    ("no episode", [], BOX, "lengths", "", None, "no episode"),
    ("float64 observation", other(1, "observation", lambda a: a.astype(np.float64)), BOX, "spec", "toy-1", None, "float64[5, 2]"),
    ("observation too narrow", other(1, "observation", lambda a: a[:, :1]), BOX, "spec", "toy-1", None, "expected float32[5, 2]"),
    ("action one short", other(1, "action", lambda a: a[:-1]), BOX, "spec", "toy-1", None, "action float32[4, 2]"),
    ("float action", other(1, "action", lambda a: a.astype(np.float32), CATEGORY), CATEGORY, "spec", "toy-1", None, "expected int64[5]"),
    ("image as floats", changed(2, NESTED, observation=camera_of("float32")), NESTED, "spec", "toy-2", None, "observation/camera float32"),
    ("nest", changed(2, observation={"position": clean()[2].observation}), BOX, "spec", "toy-2", None, "observation/position"),
    ("same id", changed(3, episode_id="toy-1"), BOX, "episode_ids", "toy-1", None, "2 episodes of this id"),
    ("empty id", changed(3, episode_id=""), BOX, "episode_ids", "", None, "an empty id"),
    ("copy", [*clean(), dataclasses.replace(clean()[1], episode_id="copy")], BOX, "duplicates", "toy-1", None, "'copy'"),
]


EXACT = (*(check.name for check in CATALOGUE[: [check.name for check in CATALOGUE].index("reward_range") + 1]), "duplicates")


def exact(**fields: object) -> CheckParams:
    """The checks of what is certain; those of what is unlikely have data of their own."""
    return CheckParams.model_validate({check.name: "off" for check in CATALOGUE if check.name not in EXACT} | fields)


def severe(**fields: object) -> CheckParams:
    return exact(**{"observation_bounds": "fail", "duplicates": "fail", **fields})


@pytest.mark.parametrize(("episodes", "spec", "check", "episode_id", "step", "words"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_each_planted_fault_is_found_where_it_is(episodes, spec, check, episode_id, step, words):
    if words == "1 step":  # an episode of one step and no transition
        episodes[-1] = dataclasses.replace(
            episodes[-1], **{k: getattr(episodes[-1], k)[:1] for k in ("observation", "action", "reward", "discount")}
        )
    report = run_checks(episodes, spec, severe())
    findings = [finding for finding in report.findings() if finding.check == check]
    assert report.verdict == "fail"
    assert len(findings) == report.results[check].faults == 1
    assert (findings[0].episode_id, findings[0].step) == (episode_id, step)
    assert words in str(findings[0])
    assert findings[0].remedy


@pytest.mark.parametrize("fault", [f for f in FAULTS if f[0] != "no transition"], ids=lambda f: f[0])
def test_a_check_that_is_off_finds_nothing_and_one_that_warns_does_not_fail(fault):
    _, episodes, spec, check, *_ = fault
    others = {each.name: "off" for each in CATALOGUE}
    off = run_checks(episodes, spec, CheckParams.model_validate(others))
    warn = run_checks(episodes, spec, CheckParams.model_validate({**others, check: "warn"}))
    assert (off.verdict, warn.verdict) == ("pass", "warn")
    assert list(off.findings()) == []
    assert {finding.severity for finding in warn.findings()} == {"warn"}


@pytest.mark.parametrize("spec", [BOX, CATEGORY, NESTED], ids=["continuous", "category", "nested with images"])
def test_clean_data_raises_nothing(spec):
    report = run_checks(clean(spec), spec, severe())
    assert list(report.findings()) == []
    assert report.verdict == "pass"


def test_bounds_hold_within_the_tolerance_only():
    bound = np.float32(2 + 1e-4)
    episodes = with_value(3, "action", (4, 1), bound)
    assert run_checks(episodes, BOX, severe(action_bounds={"tolerance": 1e-4})).verdict == "pass"
    assert run_checks(episodes, BOX, severe(action_bounds={"tolerance": 1e-5})).verdict == "fail"
    assert (
        run_checks(with_value(3, "action", 2, 3, CATEGORY), CATEGORY, severe(action_bounds={"tolerance": 10})).verdict == "fail"
    )  # not for categories


def test_an_episode_may_be_as_long_as_the_limit():
    assert run_checks([episode(7, 9)], BOX, severe()).verdict == "pass"


def test_the_zero_on_the_last_step_is_no_action():
    spec = dataclasses.replace(BOX, action=ArraySpec((2,), "float32", minimum=0.1, maximum=2.0))
    assert run_checks([dataclasses.replace(e, action=clamped(e)) for e in clean()], spec, severe()).verdict == "pass"


def clamped(e: Episode) -> np.ndarray:
    action = np.maximum(e.action, np.float32(0.1))
    action[-1] = 0
    return action


def test_the_number_of_values_bounds_a_category_that_states_no_maximum():
    spec = dataclasses.replace(CATEGORY, action=ArraySpec((), "int64", minimum=0, num_values=3))
    assert run_checks(clean(CATEGORY), spec, severe()).verdict == "pass"
    (finding,) = run_checks(with_value(3, "action", 5, 3, CATEGORY), spec, severe()).findings()
    assert (finding.found, finding.expected) == ("action = 3", "between 0 and 2")


@pytest.mark.parametrize(("bound", "direction"), [(-1.0, -2.0), (1.0, 2.0)])
def test_a_reward_beyond_the_range_by_the_rounding_of_float32_passes(bound, direction):
    beyond = np.nextafter(np.float32(bound), np.float32(direction))
    assert run_checks(with_value(1, "reward", 2, beyond), BOX, severe()).verdict == "pass"
    assert run_checks(with_value(1, "reward", 2, bound * (1 + 1e-5)), BOX, severe()).verdict == "fail"


def test_parameters_override_the_range_of_rewards():
    assert run_checks(clean(), BOX, severe(reward_range={"minimum": -5, "maximum": 0.4})).results["reward_range"].faults == 1  # episode 4's
    assert run_checks(with_value(1, "reward", 2, 1.5), BOX, severe(reward_range={"maximum": 2})).verdict == "pass"


def test_findings_are_counted_beyond_those_written_out():
    episodes = [dataclasses.replace(e, is_terminal=not e.is_terminal) for e in clean()]
    report = run_checks(episodes, BOX, severe(max_findings=2))
    assert report.results["discount"].faults == 5
    assert [finding.episode_id for finding in report.findings()] == ["toy-0", "toy-1"]


def test_several_wrong_steps_make_one_finding_that_counts_them():
    episodes = with_value(2, "observation", slice(2, 5), math.nan)
    (finding,) = run_checks(episodes, BOX, severe()).findings()
    assert finding.step == 2
    assert finding.found == "observation[0] = nan (3 steps are wrong)"


def test_failures_come_before_warnings():
    episodes = with_value(3, "action", (4, 1), 9)
    episodes[0].observation[0, 0] = 5000
    report = run_checks(episodes, BOX, exact())
    assert [(f.severity, f.check) for f in report.findings()] == [("fail", "action_bounds"), ("warn", "observation_bounds")]


def test_copies_of_several_episodes_are_grouped():
    copies = [dataclasses.replace(clean()[i], episode_id=f"copy-{i}-{n}") for n in range(7) for i in (0, 2)]
    report = run_checks([*clean(), *copies], BOX, exact())
    first, second = report.findings()
    assert (first.episode_id, second.episode_id) == ("toy-0", "toy-2")
    assert first.found == "the same content in 'copy-0-0', 'copy-0-1', 'copy-0-2', 'copy-0-3', 'copy-0-4' and 2 more"
    assert report.verdict == "warn"


def test_an_episode_off_the_spec_is_left_out_of_the_summary_of_arrays_only():
    report = run_checks(other(4, "observation", lambda a: a[:, :1]), BOX, exact())
    assert report.summary["episodes"] == 5
    assert report.summary["arrays"]["observation"]["columns"][0]["maximum"] == 306  # o_T of episode 3, not of 4


def stored_flags(episodes: list[Episode]) -> list[np.ndarray]:
    flags = [np.zeros((e.length + 1, 3), bool) for e in episodes]
    for each, e in zip(flags, episodes, strict=True):
        each[0, 0] = each[-1, 1] = True
        each[-1, 2] = e.is_terminal
    return flags


@pytest.mark.parametrize(
    ("step", "column", "value", "words"),
    [
        (0, 0, False, "is_first False; expected True on step 0 of 6"),
        (3, 0, True, "is_first True"),
        (5, 1, False, "is_last False"),
        (2, 1, True, "is_last True; expected False on step 2 of 6"),
        (4, 2, True, "is_terminal True"),
    ],
)
def test_a_wrong_flag_is_found_at_its_step(step, column, value, words):
    flags = stored_flags(clean())
    flags[2][step, column] = value
    (finding,) = run_checks(clean(), BOX, severe(), flags).findings()
    assert (finding.check, finding.episode_id, finding.step) == ("flags", "toy-2", step)
    assert words in str(finding)


def test_right_flags_raise_nothing_and_missing_ones_are_found():
    flags = stored_flags(clean())
    assert run_checks(clean(), BOX, severe(), flags).verdict == "pass"
    (finding,) = run_checks(clean(), BOX, severe(), [*flags[:4], flags[4][:-1]]).findings()
    assert (finding.check, finding.episode_id, finding.found) == ("flags", "toy-4", "flags of 7 steps")


def test_parameters_refuse_what_cannot_be_meant():
    for wrong in (
        {"finite": "maybe"},
        {"action_bounds": {"tolerance": -1}},
        {"reward_range": {"minimum": 2, "maximum": 1}},
        {"max_findings": 0},
        {"nan": "fail"},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            CheckParams.model_validate(wrong)
    assert hash(CheckParams()) == hash(CheckParams())

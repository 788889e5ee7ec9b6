"""Who goes where: bonds hold, nothing that comes later moves what came before, and what cannot be placed is set aside and told."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_datasets.allocation import QUARANTINE, Candidate, Placed, allocate, time_borders
from rl_datasets.errors import HindcastError
from rl_datasets.splits import Fractions, SplitParams, SplitSection, TimeOrder, assign_split, timestamp

ALL_IN_TRAIN = Fractions(train=1, validation=0, test=0)
HALVES = Fractions(train=0.5, validation=0, test=0.5)


def candidate(index: int, content: str = "", group: str = "", **fields) -> Candidate:
    content = content or f"content {index}"
    return Candidate(f"e{index}", content, group or content, fields.pop("episode_return", float(index)), fields.pop("kinds", {}), **fields)


def splits_of(candidates, near=(), params: SplitParams | None = None) -> list[str]:
    return [placed.split for placed in allocate(candidates, near, params or SplitParams())]


def test_equal_contents_never_part():
    """200 episodes of 60 contents."""
    numbers = np.random.default_rng(0).integers(0, 60, 200)
    found = splits_of([candidate(index, f"{number}") for index, number in enumerate(numbers)])
    by_content = {number: {split for n, split in zip(numbers, found, strict=True) if n == number} for number in numbers}
    assert len(by_content) > 50
    assert all(len(splits) == 1 for splits in by_content.values())
    assert found == [assign_split(f"{number}", Fractions(), 0) for number in numbers]


WIDE = {"fractions": Fractions(train=0.5, validation=0.25, test=0.25), "set_aside_limit": 1}
PARAMS = {
    "content": SplitParams(**WIDE),
    "group": SplitParams(**WIDE, group="site"),
    "return": SplitParams(**WIDE, stratify="return"),
    "policy": SplitParams(**WIDE, stratify="policy"),
    "time": SplitParams(**WIDE, order=TimeOrder(time="at", validation_from=55, test_from=80)),
}


@settings(max_examples=30)
@given(st.sampled_from(sorted(PARAMS)), st.data())
def test_adding_episodes_moves_none(kind, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    candidates = [
        candidate(
            index,
            f"content {rng.integers(120)}",
            f"site {rng.integers(60)}" if kind == "group" else "",
            episode_return=float(rng.normal()),
            kinds={"policy": "ab"[rng.integers(2)]},
            time=float(rng.uniform(0, 100)),
        )
        for index in range(220)
    ]
    near = [(first, second) for first, second in rng.integers(0, 220, (40, 2)).tolist() if first < second]
    before = allocate(candidates[:200], [pair for pair in near if pair[1] < 200], PARAMS[kind])
    after = allocate(candidates, near, PARAMS[kind])
    assert after[:200] == before
    for first, second in near:
        assert QUARANTINE in (after[first].split, after[second].split) or after[first].split == after[second].split
    for key in ("content", "group"):
        seen = {}
        for one, to in zip(candidates, after, strict=True):
            if to.split != QUARANTINE:
                assert seen.setdefault(getattr(one, key), to.split) == to.split


def test_a_near_copy_goes_where_the_first_went():
    candidates = [candidate(index) for index in range(100)]
    alone = splits_of(candidates)
    other = next(index for index in range(1, 100) if alone[index] != alone[0])
    assert splits_of(candidates, [(0, other)])[other] == alone[0]
    assert [s for i, s in enumerate(splits_of(candidates, [(0, other)])) if i != other] == [s for i, s in enumerate(alone) if i != other]


def test_what_is_bound_to_two_splits_is_set_aside_and_says_why():
    candidates = [candidate(index) for index in range(100)]
    alone = splits_of(candidates)
    train, test = alone.index("train"), alone.index("test")
    assert allocate(candidates, [(train, 99), (test, 99)], SplitParams())[99] == Placed(
        QUARANTINE,
        f"it belongs to test (nearly the same as 'e{test}') and to train (nearly the same as 'e{train}'), "
        "and would leak from one to the other",
    )


def test_too_many_set_aside_are_an_error():
    candidates = [candidate(index) for index in range(100)]
    alone = splits_of(candidates)
    near = [(alone.index(split), later) for split in ("train", "test") for later in range(90, 100)]
    with pytest.raises(
        HindcastError, match=r"10 of 100 episodes fit no split .*set_aside_limit \(0\.05\)\. The first is 'e90': it belongs"
    ):
        allocate(candidates, near, SplitParams())
    assert splits_of(candidates, near, SplitParams(set_aside_limit=0.1)).count(QUARANTINE) == 10


def test_the_gates_quarantine_is_in_no_split_and_binds_nobody():
    candidates = [candidate(index, reason="finite: nan" if index == 3 else "") for index in range(100)]
    placed = allocate(candidates, [(3, 50)], SplitParams())
    assert placed[3] == Placed(QUARANTINE, "finite: nan")
    assert placed[50].split == splits_of([candidate(index) for index in range(100)])[50]


def test_groups_stay_together():
    found = splits_of([candidate(index, group=f"driver {index // 10}") for index in range(800)], params=SplitParams(group="driver"))
    assert all(len(set(found[start : start + 10])) == 1 for start in range(0, 800, 10))
    assert set(found) == {"train", "validation", "test"}


@pytest.mark.parametrize("policies", [{"common": 380, "rare": 20}, {"a": 34, "b": 33, "c": 33}])
def test_strata_of_policies_have_their_fractions(policies):
    """Of 20, a hash would leave train with 12 to 20 and validation empty every eighth time."""
    kinds = [{"policy": name} for name, count in policies.items() for _ in range(count)]
    order = np.random.default_rng(0).permutation(len(kinds))
    for seed in range(20):
        candidates = [candidate(index, kinds=kinds[place]) for index, place in enumerate(order)]
        found = splits_of(candidates, params=SplitParams(stratify="policy", seed=seed))
        for name, count in policies.items():
            counts = Counter(split for one, split in zip(candidates, found, strict=True) if one.kinds["policy"] == name)
            for split, fraction in Fractions().positive().items():
                assert abs(counts[split] - fraction * count) <= 2


def test_strata_of_returns_have_their_fractions():
    returns = np.random.default_rng(1).normal(size=1000)
    candidates = [candidate(index, episode_return=float(value)) for index, value in enumerate(returns)]
    found = np.array(splits_of(candidates, params=SplitParams(stratify="return")))
    best = found[np.argsort(returns)[-200:]]
    assert abs((best == "test").sum() - 20) <= 6
    assert abs((found == "test").sum() - 100) <= 6
    assert len({tuple(splits_of(candidates, params=SplitParams(stratify="return", seed=seed))) for seed in range(5)}) == 5


def test_the_earliest_train_and_the_latest_test():
    times = np.random.default_rng(0).permutation(100)
    found = splits_of(
        [candidate(index, time=float(time)) for index, time in enumerate(times)], params=SplitParams(order=TimeOrder(time="at"))
    )
    assert [found[place] for place in np.argsort(times)] == ["train"] * 80 + ["validation"] * 10 + ["test"] * 10


def test_times_may_be_text_and_borders_given():
    order = TimeOrder(time="at", validation_from="2026-03-01", test_from="2026-04-01T02:00:00+02:00")
    begins = time_borders([], order, Fractions())
    assert begins == {"train": -np.inf, "validation": 1772323200.0, "test": 1775001600.0}  # by 'date -u -d 2026-04-01 +%s'
    for wrong, words in (({"validation_from": 5, "test_from": 4}, "test begins before"), ({"test_from": "soon"}, "a number or a time as")):
        with pytest.raises(ValueError, match=words):
            TimeOrder.model_validate({"time": "at", **wrong})
    with pytest.raises(HindcastError, match="is the time 'yesterday', but a number or a time as"):
        timestamp("yesterday", "Episode 'e'")


def test_a_group_across_a_border_in_time_is_set_aside_where_it_would_leak():
    candidates = [candidate(index, group="slow" if index in (10, 95) else "", time=float(index)) for index in range(100)]
    placed = allocate(candidates, [], SplitParams(order=TimeOrder(time="at")))
    assert placed[95].reason == (
        "it belongs to test (by its time) and to train (its group 'slow', as 'e10'), and would leak from one to the other"
    )


def test_too_few_groups_are_told_as_groups():
    candidates = [candidate(index, group=f"machine-{index % 3}") for index in range(100)]
    with pytest.raises(HindcastError, match=r": 3 groups of episodes, by 'machine' \(group\), were divided .* Group by a column of more"):
        allocate(candidates, [], SplitParams(group="machine", fractions=Fractions(train=0.98, validation=0.01, test=0.01)))


def test_a_field_of_a_data_set_of_its_own_is_named_by_its_key():
    section = SplitSection.model_validate({"group": "driver", "datasets": {"trips": {"order": {"time": "at"}}}})
    assert section.key_of("trips", "order") == "split.datasets.trips.order"
    assert section.key_of("trips", "group") == section.key_of("other", "group") == "split.group"


@pytest.mark.parametrize(
    ("count", "params", "words"),
    [
        (
            2,
            SplitParams(),
            "'validation' and 'test' would be empty: 2|'train' and .* would be empty: 2|would be empty: 2 different episodes",
        ),
        (
            20,
            SplitParams(fractions=Fractions(train=0.99, validation=0.01, test=0)),
            "'validation' is there by luck .*: 20 .* About 757 different",
        ),
        (
            2,
            SplitParams(stratify="policy"),
            r"would be empty: 2 different episodes .* \(train 0\.8, validation 0\.1, test 0\.1\)\. Collect more",
        ),
        (2, SplitParams(order=TimeOrder(time="at")), "would be empty: 2 different episodes"),
    ],
)
def test_too_few_episodes_are_refused(count, params, words):
    with pytest.raises(HindcastError, match=words):
        allocate([candidate(index, time=float(index)) for index in range(count)], [], params)


@pytest.mark.parametrize("unit", ["transition", "transitions", "step"])
def test_a_split_by_transitions_is_refused_with_the_reason(unit):
    with pytest.raises(ValueError, match=r"only 'episode' is possible.*would hold the states between those of train"):
        SplitParams(unit=unit)


def test_a_policy_that_the_quarantine_takes_out_of_train_is_an_error():
    def of(quarantined):
        return [
            candidate(i, kinds={"policy": "rare" if i < 4 else "common"}, reason="finite: nan" if i in quarantined else "")
            for i in range(100)
        ]

    with pytest.raises(HindcastError, match="No episode of policy 'rare' would be left in train: 4 of its 4 are in quarantine"):
        allocate(of(range(4)), [], SplitParams(fractions=HALVES))
    kept = next(i for i in range(4) if splits_of(of(()), params=SplitParams(fractions=HALVES))[i] == "train")
    allocate(of(set(range(4)) - {kept}), [], SplitParams(fractions=HALVES))


def test_a_policy_of_one_episode_may_vanish():
    candidates = [candidate(i, kinds={"policy": f"p{i}"}, reason="finite: nan" if i == 0 else "") for i in range(100)]
    assert splits_of(candidates)[0] == QUARANTINE


def test_one_data_set_may_be_divided_otherwise():
    section = SplitSection.model_validate(
        {"seed": 3, "datasets": {"trips": {"group": "driver", "fractions": {"train": 1, "validation": 0, "test": 0}}}}
    )
    assert section.of("trips") == SplitParams(seed=3, group="driver", fractions=ALL_IN_TRAIN)
    assert section.of("other") == SplitParams(seed=3)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"stratify": "return", "order": {"time": "at"}}, "either 'stratify' or 'order'"),
        ({"order": {"time": "at", "test_from": 3}}, "test_from needs order.validation_from"),
        ({"order": {"time": "at", "validation_from": 3}}, "validation_from needs order.test_from"),
    ],
)
def test_options_that_exclude_each_other(values, words):
    with pytest.raises(ValueError, match=words):
        SplitParams.model_validate(values)

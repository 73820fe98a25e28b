import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflow_rl.errors import ConfigError
from workflow_rl.runs.several_policies import SHARES, Copy, ExchangeConfig
from workflow_rl.studies.population import MEETINGS, drawn, exchanged, perturbed, random_of

RANGES = {"learning_rate": (1e-5, 1e-1), "discount": (0.9, 0.999)}


def meeting_random(seed: int, number: int) -> np.random.Generator:
    return random_of(seed, MEETINGS, number)


def exchange_of(**changes: Any) -> ExchangeConfig:
    return ExchangeConfig(**{"ranges": RANGES, "period": 10, "mutation_rate": 0.0, **changes})


def exchange_between(
    scores: list[float], number: int = 0, seed: int = 0, holds: Any = None, **changes: Any
) -> Any:
    """The copies of a meeting, and the settings after it."""
    settings, holds = settings_of(len(scores)), holds or [True] * len(scores)
    return exchanged(scores, holds, settings, exchange_of(**changes), meeting_random(seed, number))


def settings_of(n_members: int) -> list[dict[str, float]]:
    return [{"learning_rate": 10.0**-member, "discount": 0.9} for member in range(n_members)]


def test_the_worst_take_over_from_the_best_with_their_settings():
    settings = settings_of(4)
    copies, after = exchange_between([-5.0, -1.0, -9.0, -3.0], replace_fraction=0.25)
    assert copies == [Copy(of=2, source=1)]
    assert after == [settings[0], settings[1], settings[1], settings[3]]


def test_members_within_their_budgets_are_better_than_others():
    holds = [False, True, False, True]
    copies, _ = exchange_between([-1.0, -5.0, -2.0, -9.0], holds=holds, replace_fraction=0.25)
    assert copies == [Copy(of=2, source=1)]
    copies, _ = exchange_between([-math.inf, -5.0, -2.0, -9.0], holds=holds, replace_fraction=0.25)
    assert copies == [Copy(of=0, source=1)]


def test_which_of_the_best_is_drawn_anew_for_each_of_the_worst():
    scores = [0.0, -1.0, -100.0, -101.0]
    seen = set()
    for number in range(40):
        copies, _ = exchange_between(scores, number, replace_fraction=0.5)
        assert [copy.of for copy in copies] == [2, 3]
        seen.add(tuple(copy.source for copy in copies))
    assert seen == {(0, 0), (0, 1), (1, 0), (1, 1)}


@pytest.mark.parametrize(
    ("own", "best", "gaps", "takes_over"),
    [
        (-10.0, -9.5, {"replace_gap": 0.1}, False),
        (-10.0, -8.9, {"replace_gap": 0.1}, True),
        (-10.0, -8.9, {"replace_gap": 0.1, "replace_gap_absolute": 2.0}, False),
        (10.0, 10.9, {"replace_gap": 0.1}, False),
        (10.0, 11.1, {"replace_gap": 0.1}, True),
        (-3.0, -3.0, {"replace_gap": 0.0, "replace_gap_absolute": 0.0}, False),
        (-math.inf, -500.0, {}, True),
        (-math.inf, -math.inf, {}, False),
    ],
)
def test_only_what_is_better_by_enough_is_taken_over(own, best, gaps, takes_over):
    copies, _ = exchange_between([own, best], replace_fraction=0.5, **gaps)
    assert copies == ([Copy(0, 1)] if takes_over else [])


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("n_members", [2, 3, 7, 8])
def test_nobody_is_among_the_best_and_the_worst(fraction, n_members):
    scores = [-float(member) for member in range(n_members)]
    copies, _ = exchange_between(scores, seed=1, replace_fraction=fraction)
    n_replaced = min(math.ceil(fraction * n_members), n_members // 2)
    assert [copy.of for copy in copies] == list(range(n_members - n_replaced, n_members))
    assert all(copy.source < n_replaced for copy in copies)


def test_the_best_keep_their_settings_and_all_others_change():
    settings = settings_of(4)
    scores = [-1.0, -2.0, -3.0, -4.0]
    _, after = exchange_between(scores, replace_fraction=0.25, mutation_rate=1.0)
    assert after[0] == settings[0]
    assert all(own[name] != after[n][name] for n, own in enumerate(settings) if n for name in own)


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.5])
def test_all_without_a_score_take_over_from_those_with_one(fraction):
    scores = [-math.inf, -math.inf, -5.0, -math.inf]
    copies, after = exchange_between(scores, replace_fraction=fraction)
    assert copies == [(0, 2), (1, 2), (3, 2)]
    assert after == [settings_of(4)[2]] * 4


def test_perturbed_by_hand():
    """The same draws: whether, by how much, which way; setting after setting by name."""
    exchange = exchange_of(mutation_rate=0.6, perturb_min=1.2, perturb_max=2.0)
    random, expected = np.random.default_rng(4), {}
    for name, value in (("discount", 0.99), ("learning_rate", 1e-3)):
        if random.random() < 0.6:
            factor = random.uniform(1.2, 2.0)
            factor = 1 / factor if random.random() < 0.5 else factor
            value = 1 - (1 - value) * factor if name == "discount" else value * factor
        expected[name] = value
    settings = {"learning_rate": 1e-3, "discount": 0.99}
    assert perturbed(settings, exchange, np.random.default_rng(4)) == expected


@given(
    seed=st.integers(0, 2**63 - 1),
    settings=st.fixed_dictionaries(
        {"learning_rate": st.floats(1e-8, 1.0), "discount": st.floats(0.0, 1 - 1e-9)}
    ),
)
def test_a_perturbed_setting_is_between_its_bounds(seed, settings):
    exchange = exchange_of(mutation_rate=1.0)
    after = perturbed(settings, exchange, np.random.default_rng(seed))
    ratio = after["learning_rate"] / settings["learning_rate"]
    assert 1.1 - 1e-9 <= max(ratio, 1 / ratio) <= 1.5 + 1e-9
    assert 0 <= after["discount"] < 1


@given(seed=st.integers(0, 2**63 - 1))
def test_what_is_drawn_is_within_its_range(seed):
    settings = drawn(RANGES, seed)
    assert settings == drawn(dict(reversed(RANGES.items())), seed)
    for name, (low, high) in RANGES.items():
        assert low * (1 - 1e-9) <= settings[name] <= high * (1 + 1e-9)


def test_draws_are_log_uniform_and_of_a_share_so_is_its_distance_from_1():
    draws = [drawn(RANGES, seed) for seed in range(4000)]
    # The middle in logarithms: 1e-3, and 1 - 0.01.
    for name, middle in (("learning_rate", 1e-3), ("discount", 0.99)):
        assert (name in SHARES) == (name == "discount")
        assert np.mean([one[name] < middle for one in draws]) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("period", {"period": 0}),
        ("start", {"start": 0}),
        ("replace_fraction", {"replace_fraction": 1.5}),
        ("mutation_rate", {"mutation_rate": -0.1}),
        ("replace_gap", {"replace_gap": -1.0}),
        ("perturb_min", {"perturb_min": 0.9}),
        ("perturb_max", {"perturb_min": 1.5, "perturb_max": 1.4}),
        ("rank_by", {"rank_by": "luck"}),
        ("ranges", {"ranges": {"epochs": (1, 3)}}),
        ("ranges", {"ranges": {"learning_rate": (0, 1)}}),
        ("ranges", {"ranges": {"learning_rate": (1e-2, 1e-3)}}),
        ("ranges", {"ranges": {"discount": (0.9, 1.0)}}),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(field, changes):
    with pytest.raises(ConfigError) as error:
        exchange_of(**changes)
    assert error.value.field_name == field


def test_its_random_numbers_are_none_of_a_learners():
    ranges = {"learning_rate": (math.exp(-1.0), 1.0)}
    seeds = range(3)
    for seed in seeds:
        of_learners = {np.random.default_rng([seed, version]).random() for version in range(3)}
        number = 1 + math.log(drawn(ranges, seed)["learning_rate"])
        assert all(number != pytest.approx(other) for other in of_learners)
        assert meeting_random(seed, 0).random() not in of_learners

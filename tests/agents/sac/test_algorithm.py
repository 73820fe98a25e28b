import math
from typing import Any

import pytest

from workflow_rl.agents.algorithm import find
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.further_distributions import (
    DiagonalGaussian,
    MultiCategorical,
    SquashedGaussian,
)
from workflow_rl.agents.sac.config import SACConfig
from workflow_rl.agents.spaces import Spaces
from workflow_rl.errors import ConfigError

BOUNDS = ((-1.0, 0.0), (1.0, 2.0))


@pytest.mark.parametrize("name", ["sac", "mbpo"])
def test_what_it_learns(name: str) -> None:
    algorithm = find(name)
    settings = algorithm.settings()
    choices, numbers = Spaces(3, Categorical(3)), Spaces(3, DiagonalGaussian(2), BOUNDS)
    assert algorithm.distribution(choices, settings) == Categorical(3)
    assert algorithm.distribution(numbers, settings) == SquashedGaussian(*BOUNDS)


@pytest.mark.parametrize(
    ("spaces", "settings", "field", "says"),
    [
        (Spaces(3, MultiCategorical([2])), {}, "algorithm", "sac learns one choice"),
        (Spaces(3, DiagonalGaussian(1), ((-math.inf,), (1.0,))), {}, "algorithm", "has -inf to 1"),
        (
            *(Spaces(3, DiagonalGaussian(2), ((-1.0, 2.0), (1.0, 2.0))), {}),
            *("algorithm", "needs finite bounds .* number 1 has 2 to 2"),
        ),
        (Spaces(3, Categorical(3)), {"target_entropy": 1.5}, "target_entropy", "1.5"),
        (Spaces(3, DiagonalGaussian(2), BOUNDS), {"target_entropy": 0.7}, "target_entropy", "0.7"),
    ],
)
def test_what_it_cannot_learn(spaces: Spaces, settings: Any, field: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as error:
        find("sac").distribution(spaces, SACConfig(**settings))
    assert error.value.field_name == field


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_an_entropy_may_be_any_share_of_the_greatest(share: float) -> None:
    spaces = Spaces(3, Categorical(3))
    settings = SACConfig(target_entropy=share)
    assert find("sac").distribution(spaces, settings) == spaces.distribution


def test_an_environments_defaults_hold_but_for_some_of_its_own() -> None:
    environment = {"learning_rate": 1.0, "discount": 0.5, "clip_range": 3.0, "total_steps": 7}
    settings: Any = find("sac").settings_for(environment, {"batch_size": 8})
    assert (settings.learning_rate, settings.discount, settings.batch_size) == (1e-3, 0.5, 8)
    own: Any = find("ppo").settings_for(environment, {"discount": 0.9})
    assert (own.learning_rate, own.discount, own.clip_range) == (1.0, 0.9, 3.0)

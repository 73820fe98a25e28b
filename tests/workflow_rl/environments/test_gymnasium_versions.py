"""What all versions of Gymnasium have in common."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest

from tests.any_envs import TargetEnv
from workflow_rl.environments.gymnasium_versions import attribute_of


class Answering(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Has an attribute that no class declares."""

    def __getattr__(self, name: str) -> Any:
        if name == "lamps":
            return 3
        raise AttributeError(name)


class Plain(gymnasium.Wrapper[Any, Any, Any, Any]):
    pass


@pytest.mark.parametrize(
    ("name", "value"), [("lamps", 3), ("inner", 1), ("outer", 2), ("none", None)]
)
def test_the_first_that_has_an_attribute_tells_it(name: str, value: int | None) -> None:
    inner: Any = TargetEnv()
    inner.inner, inner.outer = 1, 1
    env: Any = Plain(Answering(inner))
    env.outer = 2
    assert attribute_of(env, name) == value

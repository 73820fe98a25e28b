"""PrimAITE's configurations, without its logs on the screen."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import primaite

sys.modules.setdefault("torch", None)  # type: ignore[arg-type]  # PrimAITE seeds torch otherwise.
from primaite.session.environment import PrimaiteGymEnv  # noqa: E402


def configured(config: str = "data_manipulation.yaml") -> PrimaiteGymEnv:
    """config: a file or folder with one learner, or the name of a configuration of PrimAITE's."""
    logging.disable(logging.INFO)
    path = Path(config)
    if not path.exists():
        path = Path(primaite.__file__).parent / "config/_package_data" / config
    return PrimaiteGymEnv(env_config=path)

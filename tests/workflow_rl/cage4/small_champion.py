"""The champion's run in the smallest size that has all its parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from workflow_rl.cage4.env.presets import CHAMPION

SMALL = {
    **{"n_envs": 2, "episodes_per_update": 2, "keep_every": 1, "n_workers": 1},
    **{"teacher_episodes": 2, "teacher_epochs": 1},
}


@contextmanager
def small_preset() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**SMALL, "settings": {**CHAMPION["settings"], "epochs": 1}}.items():
            patch.setitem(CHAMPION, name, value)
        yield

"""Many environments at once, and one behind the simulators' interface."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workflow_rl.cage4.compiled.actions import MAX_ACTIONS
from workflow_rl.cage4.compiled.episode import reset_env, step_env
from workflow_rl.cage4.compiled.generator import seed_words
from workflow_rl.cage4.compiled.jit import announce_compiling, entry_point
from workflow_rl.cage4.compiled.network import N_BLUE
from workflow_rl.cage4.compiled.observe import (
    FIRST_ACTION,
    FIRST_OBS,
    MESSAGE_BITS,
    N_ACTIONS,
    N_MASKS,
    N_OBS,
    observe,
    write_masks,
)
from workflow_rl.cage4.compiled.state import NO_ERROR, error_of, room_for, state_for


@entry_point
def reset_envs(
    states: Any,
    chosen: Any,
    is_seeded: Any,
    words: Any,
    red_classes: Any,
    max_steps: int,
    obs: Any,
    masks: Any,
) -> None:
    """Start an episode in the chosen envs.

    words: uint64 `[N, 4]`. obs: int8 `[N, 578]`. masks: bool `[N, 570]`. All other arrays: `[N]`.
    """
    silence = np.zeros((N_BLUE, MESSAGE_BITS), np.int8)
    for i in range(len(states)):
        if chosen[i]:
            reset_env(states[i], is_seeded[i], words[i], red_classes[i], max_steps)
            observe(states[i], silence, obs[i])
            write_masks(states[i], masks[i])


@entry_point
def step_envs(
    states: Any, chosen: Any, actions: Any, messages: Any, obs: Any, rewards: Any, dones: Any
) -> int:
    """Play one step in the chosen envs. Returns the index of an env that cannot go on, or -1.

    actions: int64 `[N, 5]`. messages: int8 `[N, 5, 8]`. obs: int8 `[N, 578]`. rewards: int64
    `[N, 2]`. All other arrays: `[N]`.
    """
    failed = -1
    for i in range(len(states)):
        if chosen[i]:
            if states[i].error == NO_ERROR:
                step_env(states[i], actions[i])
                observe(states[i], messages[i], obs[i])
                rewards[i, 0] = states[i].machine_reward
                rewards[i, 1] = states[i].action_cost
                dones[i] = states[i].done
            if states[i].error != NO_ERROR:
                failed = i
    return failed

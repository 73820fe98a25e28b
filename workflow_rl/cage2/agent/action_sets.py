"""What Blue's policy chooses from: all actions of the environment, or fewer that are as good."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HORIZONS, HOSTS

LATE = {30: 5, 50: 3, 100: 12}
"""For each horizon: the number of its last steps in which restoring a user's host does not pay, if
all horizons count. Found by trials, see docs/explanations/champion.md."""

Indices = NDArray[np.int64]


@functools.cache
def useful_actions() -> Indices:
    """Return the indices into ACTION_NAMES of the actions that can do any good.

    Monitor is left out, because Blue monitors at the end of every step anyway. So are actions on
    the Defender, which Red cannot gain, and on User0, which Red cannot lose, and decoys that cannot
    be set up on their host.
    """
    from workflow_rl.cage2.compiled import tables
    from workflow_rl.cage2.compiled.description import SCENARIO2

    of, fits = SCENARIO2.of, SCENARIO2.decoy_fits

    def is_useful(action: int) -> bool:
        kind, host = of["action_kind"][action], of["action_host"][action]
        if kind in (tables.SLEEP, tables.MONITOR):
            return bool(kind == tables.SLEEP)
        if host in (of["red_host"], HOSTS.index("Defender")):
            return False
        decoy = kind - tables.FIRST_DECOY
        return not 0 <= decoy < tables.N_DECOYS or bool(fits[host, decoy])

    return np.array([action for action in range(len(ACTION_NAMES)) if is_useful(action)])


class ActionSet:
    """Some of the environment's actions, from which a policy chooses. n: how many. actions: indices
    into ACTION_NAMES [n]; in a subclass, numbers below 0 stand for choices of its own.

    What a choice stands for can depend on the episode: a set has to be told every step. has_masks:
    whether some choices are impossible at times.
    """

    has_masks = False

    def __init__(self, actions: Indices) -> None:
        self.n = len(actions)
        self.actions = actions

    def begin(self, envs: Sequence[int], decoys: Indices | int = 0, n_steps: int = 0) -> None:
        """Begin episodes in M envs, or go on after n_steps with masks of decoys [M, 13]."""

    def chosen(self, envs: Sequence[int], choices: Actions) -> Indices:
        """Return indices into ACTION_NAMES for the policy's choices in M envs."""
        return self.actions[choices]

    def after(self, envs: Sequence[int], actions: Indices) -> None:
        """Note the actions [M], indices into ACTION_NAMES, that Blue took in M envs."""

    def with_masks(self, obs: NDArray[np.uint8], envs: Sequence[int]) -> NDArray[np.uint8]:
        """Return what Blue sees [M, D] in M envs, with masks of its choices if there are any."""
        return obs


class ActionsBesideDecoys(ActionSet):
    """Actions that depend on the decoys in place."""

    def __init__(self, actions: Indices) -> None:
        super().__init__(actions)
        self._decoys = np.zeros((0, len(HOSTS)), np.int64)

    def begin(self, envs: Sequence[int], decoys: Indices | int = 0, n_steps: int = 0) -> None:
        self._decoys = with_rows(self._decoys, max(envs) + 1)
        self._decoys[envs] = decoys

    def after(self, envs: Sequence[int], actions: Indices) -> None:
        after_actions(self._decoys, np.asarray(envs), actions)


class PossibleActions(ActionsBesideDecoys):
    """All actions, with masks that rule out those that can do nothing: see `masks_of`."""

    has_masks = True

    def __init__(self) -> None:
        super().__init__(np.arange(len(ACTION_NAMES)))

    def with_masks(self, obs: NDArray[np.uint8], envs: Sequence[int]) -> NDArray[np.uint8]:
        return np.concatenate([obs, masks_of(self._decoys[envs]).astype(np.uint8)], axis=1)


class ActionsByHost(ActionsBesideDecoys):
    """The useful actions, with one choice for all decoys of a host.

    The choice sets up the next possible decoy, in the order in which Red falls for them, and sleeps
    where there is none.
    """

    def __init__(self) -> None:
        fixed, self._next, _ = _decoy_tables()
        decoy_hosts = np.flatnonzero((self._next != 0).any(axis=1))
        # Numbers below 0 stand for the next decoy on a host.
        super().__init__(np.concatenate([fixed, -1 - decoy_hosts]))

    def chosen(self, envs: Sequence[int], choices: Actions) -> Indices:
        actions = super().chosen(envs, choices)
        hosts = np.where(actions < 0, -1 - actions, 0)
        return np.where(actions < 0, self._next[hosts, self._decoys[envs, hosts]], actions)


class TimedActionsByHost(ActionsByHost):
    """Actions by host that depend on the time.

    Restore becomes Remove where a horizon of the challenge is so near that Restore saves less than
    it costs: see LATE.
    """

    def __init__(self) -> None:
        super().__init__()
        self._instead = _by_the_clock()
        self._n_steps = np.zeros(0, np.int64)

    def begin(self, envs: Sequence[int], decoys: Indices | int = 0, n_steps: int = 0) -> None:
        super().begin(envs, decoys, n_steps)
        self._n_steps = with_rows(self._n_steps, max(envs) + 1)
        self._n_steps[envs] = n_steps

    def chosen(self, envs: Sequence[int], choices: Actions) -> Indices:
        step = np.minimum(self._n_steps[envs], len(self._instead) - 1)
        return self._instead[step, super().chosen(envs, choices)]

    def after(self, envs: Sequence[int], actions: Indices) -> None:
        super().after(envs, actions)
        self._n_steps[envs] += 1


def with_rows(rows: NDArray[Any], n: int) -> NDArray[Any]:
    """Return the rows, with zeros appended if they are fewer than n."""
    return np.concatenate([rows, np.zeros((max(n - len(rows), 0), *rows.shape[1:]), rows.dtype)])


@functools.cache
def _by_the_clock() -> Indices:
    """Return what replaces each of the 145 actions in each step, `[101, 145]`.

    Later steps are as the last row.
    """
    instead = np.tile(np.arange(len(ACTION_NAMES)), (max(HORIZONS) + 1, 1))
    for action, name in enumerate(ACTION_NAMES):
        kind, _, host = name.partition(" ")
        if kind != "Restore":
            continue
        remove = ACTION_NAMES.index(f"Remove {host}")
        if host.startswith("User"):
            for horizon, n_late in LATE.items():
                instead[horizon - n_late : horizon, action] = remove
        # In the last step Restore costs at least as much as any host but Op_Server0 is worth.
        if host != "Op_Server0":
            instead[max(HORIZONS) - 1, action] = remove
    return instead


@functools.cache
def _decoy_tables() -> tuple[Indices, Indices, Indices]:
    """Return three tables about decoys, whose masks are those of the decoys on a host.

    The useful actions that set up no decoy; the action of the next decoy by host and mask, or 0,
    Sleep, [13, 256]; and the mask after every action [145, 256].
    """
    from workflow_rl.cage2.compiled import tables
    from workflow_rl.cage2.compiled.description import SCENARIO2

    n_masks = 1 << tables.N_DECOYS
    kinds, useful = SCENARIO2.of["action_kind"], set(useful_actions().tolist())
    decoy_of = {
        action: kind - tables.FIRST_DECOY
        for action, kind in enumerate(kinds.tolist())
        if tables.FIRST_DECOY <= kind <= tables.LAST_DECOY
    }
    rank = {port: rank for rank, port in enumerate(tables.PREFERENCE.tolist())}
    in_order = sorted(decoy_of, key=lambda action: rank[int(tables.DECOY_PORT[decoy_of[action]])])
    following = np.zeros((len(HOSTS), n_masks), np.int64)
    after = np.tile(np.arange(n_masks), (len(ACTION_NAMES), 1))
    after[kinds == tables.RESTORE] = 0
    for action in in_order:
        decoy, host = decoy_of[action], int(SCENARIO2.of["action_host"][action])
        for mask in range(n_masks):
            ports = {int(tables.DECOY_PORT[i]) for i in range(tables.N_DECOYS) if mask >> i & 1}
            fits = SCENARIO2.decoy_fits[host, decoy] and tables.DECOY_FREE_PORT[decoy] not in ports
            is_new = fits and not mask >> decoy & 1
            after[action, mask] |= is_new << decoy
            # A second decoy on one port has no effect.
            if is_new and tables.DECOY_PORT[decoy] not in ports and action in useful:
                following[host, mask] = following[host, mask] or action
    fixed = np.array([action for action in useful_actions() if action not in decoy_of])
    return fixed, following, after


def after_actions(decoys: Indices, envs: Indices, actions: Indices) -> None:
    """Update masks of decoys `[N, 13]` with the actions `[M]` of some envs `[M]`."""
    from workflow_rl.cage2.compiled.description import SCENARIO2

    _, _, after = _decoy_tables()
    hosts = SCENARIO2.of["action_host"][actions]
    decoys[envs, hosts] = after[actions, decoys[envs, hosts]]


def masks_of(decoys: Indices) -> NDArray[np.bool_]:
    """Return which of the 145 actions can do any good, `[N, 145]`, beside decoys `[N, 13]`."""
    from workflow_rl.cage2.compiled.description import SCENARIO2

    useful = _useful_beside()
    hosts = SCENARIO2.of["action_host"]
    beside: NDArray[np.bool_] = useful[np.arange(len(ACTION_NAMES)), decoys[:, hosts]]
    return beside


@functools.cache
def _useful_beside() -> NDArray[np.bool_]:
    """Return whether an action can do any good, by action and mask of decoys, `[145, 256]`."""
    from workflow_rl.cage2.compiled.description import SCENARIO2
    from workflow_rl.cage2.compiled.tables import FIRST_DECOY, LAST_DECOY, N_DECOYS

    _, _, after = _decoy_tables()
    masks = np.arange(1 << N_DECOYS)
    kinds = SCENARIO2.of["action_kind"]
    is_decoy = (kinds >= FIRST_DECOY) & (kinds <= LAST_DECOY)
    is_useful = np.isin(np.arange(len(ACTION_NAMES)), useful_actions())
    useful: NDArray[np.bool_] = is_useful[:, None] & (~is_decoy[:, None] | (after != masks))
    return useful


def make_action_set(name: str, n_actions: int = len(ACTION_NAMES)) -> ActionSet:
    """Return one of `env.arguments.ACTION_SETS`. n_actions: how many Blue has; "all" alone takes
    another number than Scenario 2's."""
    with_episodes = {
        "possible": PossibleActions,
        "by-host": ActionsByHost,
        "by-host-timed": TimedActionsByHost,
    }
    if name in with_episodes:
        return with_episodes[name]()
    return ActionSet(np.arange(n_actions) if name == "all" else useful_actions())

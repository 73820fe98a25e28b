"""What Blue's policy chooses from: all of the environment's actions, or fewer, as good."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agents.policies.distributions import Actions
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HORIZONS, HOSTS

ACTION_SETS = ("all", "useful", "by-host", "by-host-timed")

LATE = {30: 5, 50: 3, 100: 12}
"""Of each horizon: in how many of its last steps restoring a user's host does not pay, the horizons
counted together. Found by trying, see docs/explanations/champion.md."""

Indices = NDArray[np.int64]


@functools.cache
def useful_actions() -> Indices:
    """Indices into ACTION_NAMES of those that can do any good.

    Without Monitor, which Blue does at the end of every step anyway, without the Defender, which
    Red never gains by attacking, without User0, which Red never loses, and without decoys that
    cannot be set up where they are.
    """
    from workflow_rl.cage2.compiled import tables

    def is_useful(action: int) -> bool:
        kind, host = tables.ACTION_KIND[action], tables.ACTION_HOST[action]
        if kind in (tables.SLEEP, tables.MONITOR):
            return bool(kind == tables.SLEEP)
        if host in (tables.RED_HOST, HOSTS.index("Defender")):
            return False
        decoy = kind - tables.FIRST_DECOY
        return not 0 <= decoy < tables.N_DECOYS or bool(tables.DECOY_FITS[host, decoy])

    return np.array([action for action in range(len(ACTION_NAMES)) if is_useful(action)])


class ActionSet(Protocol):
    """What a policy chooses from, as the environment's actions. It is told of every step.

    n: how many there are.
    """

    n: int

    def begin(self, envs: Sequence[int], decoys: Indices | int = 0, n_steps: int = 0) -> None:
        """Episodes begin in these M envs; or go on after n_steps, from masks of decoys in place,
        [M, 13]."""

    def chosen(self, envs: Sequence[int], choices: Actions) -> Indices:
        """Indices into ACTION_NAMES, for what the policy chose in M envs."""

    def after(self, envs: Sequence[int], actions: Indices) -> None:
        """Actions [M], indices into ACTION_NAMES, have been made."""


class FixedActions:
    """Some of the environment's actions."""

    def __init__(self, actions: Indices) -> None:
        self.n = len(actions)
        self._actions = actions

    def begin(self, envs: Sequence[int], decoys: Indices | int = 0, n_steps: int = 0) -> None:
        """See ActionSet."""

    def chosen(self, envs: Sequence[int], choices: Actions) -> Indices:
        """See ActionSet."""
        return self._actions[choices]

    def after(self, envs: Sequence[int], actions: Indices) -> None:
        """See ActionSet."""


class ActionsByHost:
    """The useful actions, but with one for all decoys of a host: the next one that can be set up,
    in the order in which Red falls for them. Where there is none, Blue sleeps."""

    def __init__(self) -> None:
        fixed, self._next, self._mask_after = _decoy_tables()
        decoy_hosts = np.flatnonzero((self._next != 0).any(axis=1))
        # Below 0: the next decoy on a host.
        self._actions = np.concatenate([fixed, -1 - decoy_hosts])
        self.n = len(self._actions)
        self._decoys = np.zeros((0, len(HOSTS)), np.int64)

    def begin(self, envs: Sequence[int], decoys: Indices | int = 0, n_steps: int = 0) -> None:
        """See ActionSet."""
        self._decoys = _with_rows(self._decoys, max(envs) + 1)
        self._decoys[envs] = decoys

    def chosen(self, envs: Sequence[int], choices: Actions) -> Indices:
        """See ActionSet."""
        actions = self._actions[choices]
        hosts = np.where(actions < 0, -1 - actions, 0)
        return np.where(actions < 0, self._next[hosts, self._decoys[envs, hosts]], actions)

    def after(self, envs: Sequence[int], actions: Indices) -> None:
        """See ActionSet."""
        from workflow_rl.cage2.compiled.tables import ACTION_HOST

        hosts = ACTION_HOST[actions]
        self._decoys[envs, hosts] = self._mask_after[actions, self._decoys[envs, hosts]]


class TimedActionsByHost(ActionsByHost):
    """Actions by host, by the clock: Restore is Remove where a horizon of the challenge is so near
    that what it saves is less than what it costs, see LATE."""

    def __init__(self) -> None:
        super().__init__()
        self._instead = _by_the_clock()
        self._n_steps = np.zeros(0, np.int64)

    def begin(self, envs: Sequence[int], decoys: Indices | int = 0, n_steps: int = 0) -> None:
        """See ActionSet."""
        super().begin(envs, decoys, n_steps)
        self._n_steps = _with_rows(self._n_steps, max(envs) + 1)
        self._n_steps[envs] = n_steps

    def chosen(self, envs: Sequence[int], choices: Actions) -> Indices:
        """See ActionSet."""
        step = np.minimum(self._n_steps[envs], len(self._instead) - 1)
        return self._instead[step, super().chosen(envs, choices)]

    def after(self, envs: Sequence[int], actions: Indices) -> None:
        """See ActionSet."""
        super().after(envs, actions)
        self._n_steps[envs] += 1


def _with_rows(rows: Indices, n: int) -> Indices:
    """At least n, the new ones 0."""
    return np.concatenate([rows, np.zeros((max(n - len(rows), 0), *rows.shape[1:]), np.int64)])


@functools.cache
def _by_the_clock() -> Indices:
    """What is done in each step for each of the 145 actions, `[101, 145]`; all later steps are as
    the last."""
    instead = np.tile(np.arange(len(ACTION_NAMES)), (max(HORIZONS) + 1, 1))
    for action, name in enumerate(ACTION_NAMES):
        kind, _, host = name.partition(" ")
        if kind != "Restore":
            continue
        remove = ACTION_NAMES.index(f"Remove {host}")
        if host.startswith("User"):
            for horizon, n_late in LATE.items():
                instead[horizon - n_late : horizon, action] = remove
        # In the last step it costs at least what any other host is worth.
        if host != "Op_Server0":
            instead[max(HORIZONS) - 1, action] = remove
    return instead


@functools.cache
def _decoy_tables() -> tuple[Indices, Indices, Indices]:
    """The useful actions that set up no decoy; the next decoy's action by host and mask of decoys
    there (0, to sleep, if there is none) [13, 256]; and that mask after every action [145, 256]."""
    from workflow_rl.cage2.compiled import tables

    n_masks = 1 << tables.N_DECOYS
    kinds, useful = tables.ACTION_KIND, set(useful_actions().tolist())
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
        decoy, host = decoy_of[action], int(tables.ACTION_HOST[action])
        for mask in range(n_masks):
            ports = {int(tables.DECOY_PORT[i]) for i in range(tables.N_DECOYS) if mask >> i & 1}
            fits = tables.DECOY_FITS[host, decoy] and tables.DECOY_FREE_PORT[decoy] not in ports
            is_new = fits and not mask >> decoy & 1
            after[action, mask] |= is_new << decoy
            # On a port that a decoy has already, another fools nobody else.
            if is_new and tables.DECOY_PORT[decoy] not in ports and action in useful:
                following[host, mask] = following[host, mask] or action
    fixed = np.array([action for action in useful_actions() if action not in decoy_of])
    return fixed, following, after


def after_actions(decoys: Indices, envs: Indices, actions: Indices) -> None:
    """Bring masks of decoys `[N, 13]` up to date with the actions `[M]` of some envs `[M]`."""
    from workflow_rl.cage2.compiled.tables import ACTION_HOST

    _, _, after = _decoy_tables()
    hosts = ACTION_HOST[actions]
    decoys[envs, hosts] = after[actions, decoys[envs, hosts]]


def masks_of(decoys: Indices) -> NDArray[np.bool_]:
    """Which of the 145 actions can do any good, `[N, 145]`, beside these decoys `[N, 13]`."""
    from workflow_rl.cage2.compiled.tables import ACTION_HOST

    useful = _useful_beside()
    beside: NDArray[np.bool_] = useful[np.arange(len(ACTION_NAMES)), decoys[:, ACTION_HOST]]
    return beside


@functools.cache
def _useful_beside() -> NDArray[np.bool_]:
    """By action and mask of the decoys on its host, `[145, 256]`: another decoy has to be new."""
    from workflow_rl.cage2.compiled.tables import ACTION_KIND, FIRST_DECOY, LAST_DECOY, N_DECOYS

    _, _, after = _decoy_tables()
    masks = np.arange(1 << N_DECOYS)
    is_decoy = (ACTION_KIND >= FIRST_DECOY) & (ACTION_KIND <= LAST_DECOY)
    is_useful = np.isin(np.arange(len(ACTION_NAMES)), useful_actions())
    useful: NDArray[np.bool_] = is_useful[:, None] & (~is_decoy[:, None] | (after != masks))
    return useful


def make_action_set(name: str) -> ActionSet:
    """That of ACTION_SETS."""
    by_host = {"by-host": ActionsByHost, "by-host-timed": TimedActionsByHost}
    if name in by_host:
        return by_host[name]()
    return FixedActions(np.arange(len(ACTION_NAMES)) if name == "all" else useful_actions())

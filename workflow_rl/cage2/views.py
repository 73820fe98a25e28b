"""What Blue's policy sees of CAGE-2, and which actions it chooses from.

Around envs (`ViewedEnvs`), so that a policy learns with them, and around such a policy
(`ViewingActor`), so that it plays wherever the 52 bits and the 145 actions are.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agents.distributions import Actions, Choice
from agents.numpy_policy import Actor
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS
from workflow_rl.collection.env_batch import EnvBatch, Transitions
from workflow_rl.collection.episode import EpisodeSpec

OBSERVATIONS = ("table", "memory", "true-state")
ACTION_SETS = ("all", "useful", "by-host")
LONGEST_OPENING = 4

TABLE_SIZE = 4 * len(HOSTS)

Bits = NDArray[np.uint8]
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

    def begin(self, envs: Sequence[int]) -> None:
        """Episodes begin in these envs."""

    def chosen(self, envs: Sequence[int], choices: Actions) -> Indices:
        """Indices into ACTION_NAMES, for what the policy chose in M envs."""

    def after(self, envs: Sequence[int], actions: Indices) -> None:
        """Actions [M], indices into ACTION_NAMES, have been made."""


class FixedActions:
    """Some of the environment's actions."""

    def __init__(self, actions: Indices) -> None:
        self.n = len(actions)
        self._actions = actions

    def begin(self, envs: Sequence[int]) -> None:
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

    def begin(self, envs: Sequence[int]) -> None:
        """See ActionSet."""
        missing = max(envs) + 1 - len(self._decoys)
        if missing > 0:
            new = np.zeros((missing, len(HOSTS)), np.int64)
            self._decoys = np.concatenate([self._decoys, new])
        self._decoys[envs] = 0

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


def make_action_set(name: str) -> ActionSet:
    """That of ACTION_SETS."""
    if name == "by-host":
        return ActionsByHost()
    return FixedActions(np.arange(len(ACTION_NAMES)) if name == "all" else useful_actions())


def opening(spec: EpisodeSpec, share: float) -> list[int]:
    """The first actions of an episode, which follow from its seed: decoys on a host drawn by
    chance, some or all that fit, in any order; or none, but in this share of the episodes.

    What the first decoys are worth shows only steps later, and only with others beside them. A
    policy that has settled on its first steps would not find out.
    """
    random = np.random.default_rng([spec.env_seed, spec.action_seed])
    if random.random() >= share:
        return []
    hosts = _decoys_by_host()
    decoys = hosts[random.integers(len(hosts))]
    return [
        int(action) for action in random.permutation(decoys)[: 1 + random.integers(len(decoys))]
    ]


@functools.cache
def _decoys_by_host() -> list[list[int]]:
    """Those of the useful actions that set up a decoy."""
    from workflow_rl.cage2.compiled import tables

    by_host: dict[int, list[int]] = {}
    for action in useful_actions().tolist():
        if tables.FIRST_DECOY <= tables.ACTION_KIND[action] <= tables.LAST_DECOY:
            by_host.setdefault(int(tables.ACTION_HOST[action]), []).append(action)
    return list(by_host.values())


class View(Protocol):
    """What Blue sees in each of several envs, numbered from 0. It is told of every step there."""

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        """Episodes begin in M envs: what Blue sees, uint8 [M, D], of obs [M, 52]."""

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        """What Blue sees, uint8 [M, D], of the obs [M, 52] that its actions [M] have led to, which
        are indices into ACTION_NAMES."""


class TableView:
    """The 52 bits as they are."""

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        """See View."""
        return obs

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        """See View."""
        return obs


class MemoryView:
    """The 52 bits, and what Blue remembers of the steps before: see `compiled.blue_memory`."""

    def __init__(self) -> None:
        self._memories = np.zeros(0, _blue_memory().MEMORY)

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        """See View."""
        missing = max(envs) + 1 - len(self._memories)
        if missing > 0:
            new = np.zeros(missing, self._memories.dtype)
            self._memories = np.concatenate([self._memories, new])
        shown = self._empty(obs)
        _blue_memory().begin_memories(self._memories, np.array(envs), _plain(obs), shown)
        return shown

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        """See View."""
        shown = self._empty(obs)
        _blue_memory().remember_steps(self._memories, np.array(envs), actions, _plain(obs), shown)
        return shown

    def _empty(self, obs: Bits) -> Bits:
        return np.empty((len(obs), _blue_memory().N_SHOWN), np.uint8)


class TrueStateView:
    """All that there is: see `compiled.true_state`. states: of the compiled simulator."""

    def __init__(self, states: NDArray[Any]) -> None:
        self._states = states

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        """See View."""
        from workflow_rl.cage2.compiled.true_state import N_SHOWN, show_states

        shown = np.empty((len(obs), N_SHOWN), np.uint8)
        show_states(self._states, np.array(envs), _plain(obs), shown)
        return shown

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        """See View."""
        return self.begin(envs, obs)


def _blue_memory() -> Any:
    # Not before it is needed: numba takes half a second to import.
    from workflow_rl.cage2.compiled import blue_memory

    return blue_memory


def _plain(obs: Bits) -> Bits:
    """In the one layout that compiled code is compiled for."""
    return np.array(obs, np.uint8, order="C")


def make_view(observation: str, envs: EnvBatch | None = None) -> View:
    """That of OBSERVATIONS. Raises ValueError for the true state without envs that show it."""
    if observation == "true-state":
        states = getattr(envs, "states", None)
        if states is None:
            raise ValueError("the true state is seen in the compiled simulator alone")
        return TrueStateView(states)
    return MemoryView() if observation == "memory" else TableView()


def view_size(observation: str) -> int:
    """How many bits it shows."""
    if observation == "table":
        return TABLE_SIZE
    if observation == "true-state":
        from workflow_rl.cage2.compiled.true_state import N_SHOWN

        return N_SHOWN
    return int(_blue_memory().N_SHOWN)


class ViewedEnvs:
    """CAGE-2 envs as Blue's policy sees them, with the actions that it chooses from.

    openings: share of the episodes in which the first steps are made for the policy: see `opening`.
    """

    def __init__(
        self, envs: EnvBatch, observation: str, actions: str, openings: float = 0.0
    ) -> None:
        self.n_envs = envs.n_envs
        self.close = envs.close
        self._envs = envs
        self._view = make_view(observation, envs)
        self._actions = make_action_set(actions)
        self._openings = openings

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Bits:
        """Begin an episode in each of M envs."""
        seen = self._view.begin(envs, self._envs.reset(envs, specs))
        self._actions.begin(envs)
        if not self._openings:
            return seen
        seen, actions = seen.copy(), [opening(spec, self._openings) for spec in specs]
        for t in range(max(map(len, actions))):
            rows = [row for row in range(len(envs)) if t < len(actions[row])]
            playing, chosen = (
                [envs[row] for row in rows],
                np.array([actions[row][t] for row in rows]),
            )
            seen[rows] = self._step(playing, chosen).obs
        return seen

    def step(self, envs: Sequence[int], actions: Actions) -> Transitions:
        """Step each of M envs once; actions [M] are indices into the set."""
        return self._step(envs, self._actions.chosen(envs, actions))

    def _step(self, envs: Sequence[int], actions: Indices) -> Transitions:
        transitions = self._envs.step(envs, actions)
        self._actions.after(envs, actions)
        return transitions._replace(obs=self._view.after(envs, actions, transitions.obs))


class ViewingActor:
    """An actor of `ViewedEnvs`, playing on the 52 bits with all 145 actions."""

    def __init__(self, actor: Actor, observation: str, actions: str) -> None:
        self.actor = actor
        self.policy_version = actor.policy_version
        self._view = make_view(observation)
        self._actions = make_action_set(actions)
        self._last_actions: dict[int, int] = {}

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        """Begin an episode in env number `env`: see Actor."""
        assert n_acted == 0, "what the agent remembers of the steps before is not known"
        self.actor.reset(seed, env)
        self._actions.begin([env])
        self._last_actions.pop(env, None)

    def act(self, obs: NDArray[np.uint8], envs: Sequence[int] = (0,)) -> Choice:
        """Actions, indices into ACTION_NAMES, for obs [M, 52]: see Actor."""
        choices, log_probs = self.actor.act(self._seen(obs, envs), envs)
        actions = self._actions.chosen(envs, choices)
        self._actions.after(envs, actions)
        self._last_actions.update(zip(envs, actions.tolist(), strict=True))
        return actions, log_probs

    def _seen(self, obs: Bits, envs: Sequence[int]) -> Bits:
        going_on = np.array([env in self._last_actions for env in envs])
        if not going_on.any():
            return self._view.begin(envs, obs)
        if going_on.all():
            return self._view.after(envs, self._last(envs), obs)
        first, later = np.flatnonzero(~going_on).tolist(), np.flatnonzero(going_on).tolist()
        firsts, laters = [envs[row] for row in first], [envs[row] for row in later]
        shown = self._view.begin(firsts, obs[first])
        seen = np.empty((len(obs), shown.shape[1]), np.uint8)
        seen[first] = shown
        seen[later] = self._view.after(laters, self._last(laters), obs[later])
        return seen

    def _last(self, envs: Sequence[int]) -> Indices:
        return np.array([self._last_actions[env] for env in envs])

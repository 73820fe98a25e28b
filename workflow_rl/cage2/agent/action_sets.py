"""What Blue's policy chooses from: all actions of the environment, or fewer that are as good."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HORIZONS, HOSTS

if TYPE_CHECKING:
    from workflow_rl.cage2.agent.network_facts import NetworkFacts

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

    def begin(self, envs: Sequence[int]) -> None:
        """Begin episodes in M envs."""

    def chosen(self, envs: Sequence[int], choices: Actions) -> Indices:
        """Return indices into ACTION_NAMES for the policy's choices in M envs."""
        return self.actions[choices]

    def after(self, envs: Sequence[int], actions: Indices) -> None:
        """Note the actions [M], indices into ACTION_NAMES, that Blue took in M envs."""

    def with_masks(self, obs: NDArray[np.uint8], envs: Sequence[int]) -> NDArray[np.uint8]:
        """Return what Blue sees [M, D] in M envs, with masks of its choices if there are any."""
        return obs


class BlueActions(NamedTuple):
    """What Blue's actions are in K scenarios of at most H hosts.

    kinds, hosts: of each action, `[A]`. fits: masks of the decoys that can be set up on a host at
    all, `[K, H]`. are_alike: whether decoys are of no known kind, as those of Misinform are: then
    one after the other is counted. playing: the scenario of each env, `[N]`; None for the first.
    """

    kinds: Indices
    hosts: Indices
    fits: Indices
    are_alike: bool = False
    playing: Indices | None = None

    def scenarios(self, envs: Sequence[int] | Indices) -> Indices:
        """Return the scenario of each of M envs, `[M]`."""
        return np.zeros(len(envs), np.int64) if self.playing is None else self.playing[envs]

    def useful(self, envs: Sequence[int] | Indices, decoys: Indices) -> Indices:
        """Return masks of the decoys that have an effect beside those in place, `[M, H]`."""
        beside = ~decoys if self.are_alike else decoys_beside()[1][decoys]
        return beside & self.fits[self.scenarios(envs)]

    def after(self, decoys: Indices, envs: Indices, actions: Indices) -> None:
        """Update masks of decoys `[N, H]` with the actions `[M]` of some envs `[M]`."""
        from workflow_rl.cage2.compiled import tables

        kinds, hosts = self.kinds[actions], self.hosts[actions]
        before, fits = decoys[envs, hosts], self.fits[self.scenarios(envs), hosts]
        if self.are_alike:
            can = fits & ~before
            set_up = np.where(kinds == tables.MISINFORM, can & -can, 0)
        else:
            is_decoy = (kinds >= tables.FIRST_DECOY) & (kinds <= tables.LAST_DECOY)
            bits = np.where(is_decoy, 1 << np.maximum(kinds - tables.FIRST_DECOY, 0), 0)
            set_up = decoys_beside()[0][before] & fits & bits
        decoys[envs, hosts] = np.where(kinds == tables.RESTORE, 0, before | set_up)


class ActionsBesideDecoys(ActionSet):
    """Actions that depend on the decoys in place. blue: None stands for Scenario 2."""

    def __init__(self, actions: Indices, blue: BlueActions | None = None) -> None:
        super().__init__(actions)
        self._after = after_actions if blue is None else blue.after
        n_hosts = len(HOSTS) if blue is None else blue.fits.shape[1]
        self._decoys = np.zeros((0, n_hosts), np.int64)

    def begin(self, envs: Sequence[int]) -> None:
        self._decoys = with_rows(self._decoys, max(envs) + 1)
        self._decoys[envs] = 0

    def after(self, envs: Sequence[int], actions: Indices) -> None:
        self._after(self._decoys, np.asarray(envs), actions)


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

    def begin(self, envs: Sequence[int]) -> None:
        super().begin(envs)
        self._n_steps = with_rows(self._n_steps, max(envs) + 1)
        self._n_steps[envs] = 0

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
def decoys_beside() -> tuple[Indices, Indices, Indices]:
    """Return three tables by a mask of decoys, `[256]`.

    Masks of the decoys that CybORG sets up beside these, and of those among them that have an
    effect, which a second decoy on one port has not; and the decoy in the mask for which Red falls
    most readily, or -1.
    """
    from workflow_rl.cage2.compiled import tables

    bits = 1 << np.arange(tables.N_DECOYS)
    in_mask = np.arange(1 << tables.N_DECOYS)[:, None] & bits != 0
    opens, needs = (
        ports[: tables.N_DECOYS] for ports in (tables.DECOY_PORT, tables.DECOY_FREE_PORT)
    )
    is_open = (in_mask[:, :, None] & (opens[:, None] == opens)).any(axis=1)
    is_used = (in_mask[:, :, None] & (opens[:, None] == needs)).any(axis=1)
    possible = ~in_mask & ~is_used
    in_order = np.argsort([tables.PREFERENCE.tolist().index(port) for port in opens], kind="stable")
    first = np.where(in_mask.any(axis=1), in_order[in_mask[:, in_order].argmax(axis=1)], -1)
    return possible @ bits, (possible & ~is_open) @ bits, first


@functools.cache
def _decoy_tables() -> tuple[Indices, Indices, Indices]:
    """Return three tables about decoys, whose masks are those of the decoys on a host.

    The useful actions that set up no decoy; the action of the next decoy by host and mask, or 0,
    Sleep, [13, 256]; and the mask after every action [145, 256].
    """
    from workflow_rl.cage2.compiled import tables
    from workflow_rl.cage2.compiled.description import SCENARIO2

    n_masks, bits = 1 << tables.N_DECOYS, 1 << np.arange(tables.N_DECOYS)
    kinds, useful = SCENARIO2.of["action_kind"], useful_actions()
    possible, effective, first = decoys_beside()
    is_decoy = (kinds >= tables.FIRST_DECOY) & (kinds <= tables.LAST_DECOY)
    following = np.zeros((len(HOSTS), n_masks), np.int64)
    after = np.tile(np.arange(n_masks), (len(ACTION_NAMES), 1))
    after[kinds == tables.RESTORE] = 0
    fits = SCENARIO2.decoy_fits @ bits
    for action in np.flatnonzero(is_decoy):
        decoy, host = kinds[action] - tables.FIRST_DECOY, SCENARIO2.of["action_host"][action]
        after[action] |= possible & fits[host] & bits[decoy]
        if action in useful:
            following[host, first[effective & fits[host]] == decoy] = action
    return useful[~is_decoy[useful]], following, after


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


def make_action_set(
    name: str,
    n_actions: int = len(ACTION_NAMES),
    known: NetworkFacts | None = None,
    playing: Indices | None = None,
) -> ActionSet:
    """Return one of `env.arguments.ACTION_SETS`. n_actions: how many Blue has; "all" alone takes
    another number than Scenario 2's. known, playing: see `views.make_view`."""
    if known is not None:
        return known.action_set(name, playing)
    if name == "all":
        return ActionSet(np.arange(n_actions))
    return {"by-host": ActionsByHost, "by-host-timed": TimedActionsByHost}[name]()


def verbs_of(actions: Sequence[str], hosts: Sequence[str]) -> list[tuple[int, int]]:
    """Return the verb and the host of each action, or the number of an action on no host and -1."""
    named = []
    for action in actions:
        verb, _, host = action.partition(" ")
        named.append((verb, hosts.index(host) if host else -1))
    numbers: dict[bool, dict[str, int]] = {True: {}, False: {}}
    return [
        (numbers[host < 0].setdefault(verb, len(numbers[host < 0])), host) for verb, host in named
    ]

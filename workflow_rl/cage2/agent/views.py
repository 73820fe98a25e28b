"""The observations and action sets of Blue's policies, and an actor that observes only hosts' bits.

A policy learns in the envs of `viewed_envs`. Submissions contain a copy of this module, so it needs
only NumPy and `agents`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions, Categorical, Choice
from workflow_rl.agents.policies.entity_layout import EntityLayout
from workflow_rl.agents.policies.numpy_policy import Actor, NumpyPolicy
from workflow_rl.cage2.agent.history_counts import (
    N_OF_ALL,
    N_OF_HOST,
    HistoryCounts,
    columns_of_evidence,
)
from workflow_rl.cage2.agent.network_facts import (
    FACTS,
    BlueDecoys,
    Indices,
    NetworkFacts,
    joined_hosts,
    likeliest_decoys,
    scenarios_in,
    with_rows,
)
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.compiled.tables import N_DECOYS, Tables
from workflow_rl.cage2.scenario.actions import BLUE, BY_HOST, NEXT_DECOY
from workflow_rl.cage2.scenario2 import HORIZONS, HOSTS

Bits = NDArray[np.uint8]

BELIEVING = ("belief", "evidence")
"""The observations that show a belief."""
REMEMBERING = ("history", "evidence")
"""The observations that show `HistoryCounts`."""
LATE = {30: 5, 50: 3, 100: 12}
"""For each horizon: the number of last steps in which a Restore of a user's host costs more than it
saves. Trials with a score over all horizons gave the numbers: see docs/explanations/champion.md."""


class Sees(Protocol):
    """Makes Blue's observations in several envs, numbered from 0. The caller has to report each
    step."""

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        """Begin episodes in M envs. Return Blue's observations, uint8 [M, D], for obs [M, 4 H]."""

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        """Return Blue's observations, uint8 [M, D], for obs [M, 4 H] after Blue's actions [M]."""


class View:
    """A `Sees` with one of the observations `table`, `belief`, `evidence` and `history`.

    `belief` is Blue's belief, which begins with the bits of the hosts. `evidence` adds a bit that
    says whether Red has refuted the belief, and the past (`HistoryCounts`). `table` has, for each
    host, its bits, and its facts if `facts.are_told`. `history` adds each host's past and the whole
    network's past. Both end with the joined pairs of hosts if `facts.tells_edges`.

    playing: see `BlueDecoys`. n_shown: D.
    """

    def __init__(
        self, observation: str, facts: NetworkFacts, playing: Indices | None = None
    ) -> None:
        has_belief = observation in BELIEVING
        has_past = observation in REMEMBERING
        self._facts = facts
        self._playing = playing
        self._belief = BlueBelief(tables_of(facts.scenarios[0])) if has_belief else None
        self._past = HistoryCounts(facts, playing) if has_past else None
        self._past_columns = columns_of_evidence(facts) if has_belief and has_past else None
        self._per_host = 4  # The number of columns about each host.
        if self._belief is not None:
            past = 0 if self._past_columns is None else 1 + len(self._past_columns)
            self.n_shown = self._belief.n_shown + past
        else:
            of_all = 0
            if facts.are_told:
                self._per_host += len(FACTS)
            if has_past:
                self._per_host += N_OF_HOST
                of_all += N_OF_ALL
            if facts.tells_edges:
                of_all += 2 * facts.n_hosts**2
            self.n_shown = facts.n_hosts * self._per_host + of_all

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        if self._past is not None:
            self._past.begin(envs)
        if self._belief is not None:
            return self._with_evidence(envs, self._belief.begin(envs, obs))
        return self._rows(envs, obs)

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        if self._past is not None:
            self._past.after(envs, actions, obs)
        if self._belief is not None:
            return self._with_evidence(envs, self._belief.after(envs, actions, obs))
        return self._rows(envs, obs)

    def _with_evidence(self, envs: Sequence[int], believed: Bits) -> Bits:
        if self._belief is None or self._past is None:
            return believed
        refuted = self._belief.is_refuted(envs)
        past = [self._past.of_hosts(envs).reshape(len(envs), -1), self._past.of_all(envs)]
        shown = np.concatenate(past, axis=1)[:, self._past_columns]
        return np.concatenate([believed, refuted[:, None], shown], axis=1)

    def _rows(self, envs: Sequence[int], obs: Bits) -> Bits:
        scenarios = scenarios_in(self._playing, envs)
        m = len(envs)
        of_hosts = [obs.reshape(m, -1, 4)]
        of_all = list[NDArray[Any]]()
        if self._facts.are_told:
            of_hosts.append(self._facts.facts[scenarios])
        if self._past is not None:
            of_hosts.append(self._past.of_hosts(envs))
            of_all.append(self._past.of_all(envs))
        if self._facts.tells_edges:
            of_all.append(self._facts.joined[scenarios].reshape(m, -1).astype(np.uint8))
        of_all.insert(0, np.concatenate(of_hosts, axis=2).reshape(m, -1))
        return np.concatenate(of_all, axis=1)

    def entities(self, choices: Sequence[str]) -> EntityLayout | None:
        """Return the layout of hosts as entities: the columns and the actions of each host.

        choices: the names of the actions. If policies observe no facts, each host has a trait of
        its own, which tells the hosts apart. Return None for a belief together with facts: hosts of
        other networks have different columns."""
        facts = self._facts
        n = facts.n_hosts
        if self._belief is not None and facts.are_told:
            return None
        tables: dict[str, Any] = {"actions": _verbs_of(choices, facts.host_names)}
        columns = np.arange(n * self._per_host).reshape(n, self._per_host)
        if facts.are_told:
            # Column 4, after a host's four bits, is its first fact, "exists".
            tables |= {"present": columns[:, 4], "features": np.delete(columns, 4, axis=1)}
        else:
            if self._belief is not None:
                columns = np.concatenate([columns, _belief_of_hosts()], axis=1)
            tables |= {"features": columns, "traits": np.eye(n)}
        if facts.tells_edges:
            first = self.n_shown - 2 * n**2
            of_subnet, leads = first + np.arange(2 * n**2).reshape(2, n, n)
            edges = {"subnet": of_subnet, "leads to": leads, "led to": leads.T}
            tables["edges"] = {name: _pairs(of_pairs) for name, of_pairs in edges.items()}
        elif len(facts.scenarios) == 1:
            joined = joined_hosts(facts.scenarios[0])
            tables["edges"] = {name: np.argwhere(pairs) for name, pairs in joined.items()}
        return EntityLayout(self.n_shown, tables)


def _verbs_of(actions: Sequence[str], hosts: Sequence[str]) -> list[tuple[int, int]]:
    """Return the numbers of each action's verb and host. An action without a host has host -1, and
    its verb is numbered among the actions without a host."""
    numbers: dict[bool, dict[str, int]] = {True: {}, False: {}}
    verbs = []
    for action in actions:
        verb, _, host = action.partition(" ")
        of_verb = numbers[bool(host)]
        number = of_verb.setdefault(verb, len(of_verb))
        verbs.append((number, hosts.index(host) if host else -1))
    return verbs


def _belief_of_hosts() -> NDArray[np.int64]:
    """Return the columns of the belief about each host of Scenario 2, or -1, `[H, columns]`."""
    blue_belief = _blue_belief()
    columns = blue_belief.columns_shown(len(blue_belief.WORTH_A_DECOY))
    decoys = np.full((len(HOSTS), N_DECOYS, 2), -1)
    decoys[*blue_belief.WORTH_A_DECOY.T] = columns["decoys"]
    probable = np.full((len(HOSTS), columns["of hosts"].shape[1]), -1)
    probable[blue_belief.CONTESTED] = columns["of hosts"]
    return np.concatenate([decoys.reshape(len(HOSTS), -1), columns["masks"].T, probable], axis=1)


def _pairs(columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a row for each pair of hosts `[H * H, 3]`: both hosts, and the pair's column."""
    host, other = np.indices(columns.shape)
    return np.stack([host, other, columns], axis=2).reshape(-1, 3)


class BlueBelief:
    """Blue's conclusions from the whole episode: see `Sees` and `compiled.blue_belief`.

    beliefs: `[N]`, one for each env. hypotheses: `[N, N_HYPOTHESES]`."""

    def __init__(self, tables: Tables) -> None:
        from workflow_rl.cage2.compiled.red_hypothesis import HYPOTHESIS

        blue_belief = _blue_belief()
        of_use = blue_belief.decoys_of_use(tables)
        self._scenario = tables.record, of_use
        self.n_shown = blue_belief.n_shown(len(of_use))
        self.beliefs = np.zeros(0, blue_belief.BELIEF)
        self.hypotheses = np.zeros((0, blue_belief.N_HYPOTHESES), HYPOTHESIS)
        candidates = np.zeros(blue_belief.N_CANDIDATES, HYPOTHESIS)
        sets = np.zeros(blue_belief.MAX_DECOY_SETS, blue_belief.DECOY_SET)
        self._working = candidates, sets

    def begin(self, envs: Sequence[int], obs: Bits) -> Bits:
        self.beliefs = with_rows(self.beliefs, max(envs) + 1)
        self.hypotheses = with_rows(self.hypotheses, max(envs) + 1)
        shown = np.empty((len(obs), self.n_shown), np.uint8)
        known = self.beliefs, *self._scenario, np.array(envs), self.hypotheses
        _blue_belief().begin_beliefs(*known, plain(obs), shown)
        return shown

    def after(self, envs: Sequence[int], actions: Indices, obs: Bits) -> Bits:
        shown = np.empty((len(obs), self.n_shown), np.uint8)
        known = self.beliefs, *self._scenario, np.array(envs), self.hypotheses
        _blue_belief().conclude_steps(*known, *self._working, actions, plain(obs), shown)
        return shown

    def is_refuted(self, envs: Sequence[int]) -> Bits:
        """Return, for each of M envs, whether no hypothesis explains Red's actions, `[M]`."""
        refuted: Bits = self.beliefs["is_refuted"][envs].astype(np.uint8)
        return refuted


def _blue_belief() -> Any:
    # Imported only for a belief, because the import of numba takes half a second.
    from workflow_rl.cage2.compiled import blue_belief

    return blue_belief


def plain(obs: Bits) -> Bits:
    """Return the bits as a contiguous array, the only memory layout that compiled code accepts."""
    return np.array(obs, np.uint8, order="C")


class ActionSet:
    """Blue's choices: one of `guest.ACTION_SETS`, in envs that are numbered from 0.

    `all` has every action. `by-host` has Sleep, and the kinds BY_HOST on each host. NEXT_DECOY sets
    up the possible decoy that Red prefers to attack, or sleeps if no decoy is possible. In
    `by-host-timed`, Restore becomes Remove if a horizon of the challenge is near: see LATE. A
    policy that observes facts has choices on all hosts, with masks. Any other policy has choices
    only on hosts that Red can take. The caller has to report each step.

    playing: see `BlueDecoys`. names: the names of the n choices. has_masks: whether a choice can be
    impossible."""

    def __init__(self, name: str, facts: NetworkFacts, playing: Indices | None = None) -> None:
        self.has_masks = facts.are_told
        self._decoys = BlueDecoys(facts, playing)
        if name == "all":
            self.names = facts.named
            is_open = facts.exists
        else:
            is_open = facts.contested
            listed = np.arange(facts.n_hosts) if facts.are_told else np.flatnonzero(is_open[0])
            hosts = [facts.host_names[host] for host in listed]
            self.names = ("Sleep", *(f"{kind} {host}" for kind in BY_HOST for host in hosts))
        self.n = len(self.names)
        numbers = {action: number for number, action in enumerate(facts.named)}
        self._sleep = numbers["Sleep"]
        # If Blue lacks this kind of action, the choice stands for Sleep and the choice's mask is 0.
        self._actions = np.array([numbers.get(choice, self._sleep) for choice in self.names])
        split = [choice.partition(" ") for choice in self.names]
        self._is_next = np.array([kind == NEXT_DECOY for kind, _, _ in split])
        on_host = np.array([host != "" for _, _, host in split])
        # A choice without a host gets the first host as a placeholder, which `on_host` excludes.
        named_hosts = [host or facts.host_names[0] for _, _, host in split]
        self._hosts = np.array([facts.host_names.index(host) for host in named_hosts])
        can = np.array([facts.can_do(kind) for kind, _, _ in split]).T
        self._masks = (can & (~on_host | is_open[:, self._hosts])).astype(np.uint8)
        rows = []
        for decoy in facts.decoy_kinds:
            rows.append([numbers.get(f"{decoy} {host}", self._sleep) for host in facts.host_names])
        self._decoy_actions = np.array(rows)  # By kind of decoy and host.
        self._knows_no_kinds = facts.is_misinforming
        self._instead = _by_the_clock(facts.named) if name == "by-host-timed" else None
        self._n_steps = np.zeros(0, np.int64)

    def begin(self, envs: Sequence[int]) -> None:
        self._decoys.begin(envs)
        self._n_steps = with_rows(self._n_steps, max(envs) + 1)
        self._n_steps[envs] = 0

    def chosen(self, envs: Sequence[int], choices: Actions) -> Indices:
        """Return Blue's actions, by index, for the policy's choices in M envs."""
        actions, hosts = self._actions[choices], self._hosts[choices]
        if self._is_next.any():
            useful = self._decoys.useful(envs)[np.arange(len(hosts)), hosts]
            first = 0 if self._knows_no_kinds else likeliest_decoys()[useful]
            following = np.where(useful > 0, self._decoy_actions[first, hosts], self._sleep)
            actions = np.where(self._is_next[choices], following, actions)
        if self._instead is not None:
            step = np.minimum(self._n_steps[envs], len(self._instead) - 1)
            actions = self._instead[step, actions]
        return actions

    def after(self, envs: Sequence[int], actions: Indices) -> None:
        """Count a step, and update Blue's decoys, after Blue's actions [M] in M envs."""
        self._decoys.after(envs, actions)
        self._n_steps[envs] += 1

    def with_masks(self, obs: NDArray[np.uint8], envs: Sequence[int]) -> NDArray[np.uint8]:
        """Return Blue's observations [M, D], followed by masks of the choices if `has_masks`."""
        if not self.has_masks:
            return obs
        masks = self._masks[self._decoys.scenarios(envs)]
        if self._is_next.any():
            has_useful_decoy = self._decoys.useful(envs)[:, self._hosts] > 0
            masks = masks & (~self._is_next | has_useful_decoy)
        return np.concatenate([obs, masks], axis=1)


@functools.cache
def _by_the_clock(actions: tuple[str, ...]) -> Indices:
    """Return, for each step and action, the index of the replacing action, `[101, A]`.

    The last row holds for all later steps."""
    instead = np.tile(np.arange(len(actions)), (max(HORIZONS) + 1, 1))
    for number, name in enumerate(actions):
        kind, _, host = name.partition(" ")
        if not BLUE[kind].near_the_end:
            continue
        cheaper = actions.index(f"{BLUE[kind].near_the_end} {host}")
        if host.startswith("User"):
            for horizon, n_late in LATE.items():
                instead[horizon - n_late : horizon, number] = cheaper
        # In the last step, a Restore pays only on Op_Server0.
        if host != "Op_Server0":
            instead[max(HORIZONS) - 1, number] = cheaper
    return instead


class ViewingActor:
    """Wrap an actor of `ViewedEnvs`: the wrapped actor observes the bits of hosts, and returns any
    of Blue's actions. facts: what Blue knows of the scenario in which the actor plays."""

    def __init__(
        self,
        actor: Actor,
        observation: str,
        actions: str,
        opening: Sequence[str],
        facts: NetworkFacts,
    ) -> None:
        self.actor = actor
        self.policy_version = actor.policy_version
        self._n_bits = 4 * facts.n_hosts
        self.n_actions = len(facts.named)
        self._view = View(observation, facts)
        self._actions = ActionSet(actions, facts)
        self._opening = [facts.named.index(name) for name in opening]
        self._made: dict[int, tuple[int, int]] = {}  # By env: number of actions, and last action.

    def ask(self, **asked: Any) -> None:
        """Let the actor follow a request, such as an order, from now on. Raises ValueError if the
        actor takes no requests."""
        if not hasattr(self.actor, "ask"):
            raise ValueError(f"this agent takes no {' and no '.join(asked)}")
        self.actor.ask(**asked)

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        assert n_acted == 0, "the agent's memory of earlier steps is not known"
        self.actor.reset(seed, env)
        self._actions.begin([env])
        self._made[env] = 0, 0

    def meant(self, env: int = 0) -> Indices:
        """Return the action for which each of the n choices stands now in env `env`, `[n]`."""
        if env not in self._made:
            self.reset(0, env)
        return self._actions.chosen([env] * self._actions.n, np.arange(self._actions.n))

    def act(self, obs: NDArray[np.uint8], envs: Sequence[int] = (0,)) -> Choice:
        """Return Blue's actions for obs [M, 4 H], and log-probabilities: see Actor.

        Actions of the opening have probability 1."""
        obs = np.atleast_2d(obs)
        # Compiled code checks no shapes, and would read beyond the end of a shorter array.
        if obs.shape != (len(envs), self._n_bits) or not ((obs == 0) | (obs == 1)).all():
            raise ValueError(f"observations are zeros and ones, ({len(envs)}, {self._n_bits})")
        for env in envs:
            if env not in self._made:
                self.reset(0, env)
        seen = self._seen(obs, envs)
        made = [self._made[env][0] for env in envs]
        free = [row for row, n in enumerate(made) if n >= len(self._opening)]
        actions = np.array([self._opening[n] if n < len(self._opening) else 0 for n in made])
        log_probs = np.zeros(len(envs), np.float32)
        if free:
            playing = [envs[row] for row in free]
            masked = self._actions.with_masks(seen[free], playing)
            choices, log_probs[free] = self.actor.act(masked, playing)
            actions[free] = self._actions.chosen(playing, choices)
        self._actions.after(envs, actions)
        for env, n, action in zip(envs, made, actions.tolist(), strict=True):
            self._made[env] = n + 1, action
        return actions, log_probs

    def _seen(self, obs: Bits, envs: Sequence[int]) -> Bits:
        seen = np.empty((len(obs), self._view.n_shown), np.uint8)
        begins = np.array([self._made[env][0] == 0 for env in envs])
        first_rows = np.flatnonzero(begins).tolist()
        if first_rows:
            seen[first_rows] = self._view.begin([envs[row] for row in first_rows], obs[first_rows])
        later_rows = np.flatnonzero(~begins).tolist()
        if later_rows:
            going_on = [envs[row] for row in later_rows]
            last_actions = np.array([self._made[env][1] for env in going_on])
            seen[later_rows] = self._view.after(going_on, last_actions, obs[later_rows])
        return seen


def on_networks(
    policy: NumpyPolicy, facts: NetworkFacts, observation: str, actions: str
) -> NumpyPolicy:
    """Return the policy for envs of other networks with the same view.

    Raises ValueError if Blue has other kinds of actions there, or if the policy's network does not
    read hosts as entities."""
    from workflow_rl.agents.policy_from_checkpoint import policy_on  # Submissions lack this file.

    if "layout" not in policy.parameters.network_args:
        raise ValueError(
            "its network is made for as many hosts as it saw: train with --network entities or "
            "graph"
        )
    layout = View(observation, facts).entities(ActionSet(actions, facts).names)
    assert layout is not None
    carried = policy_on(policy.parameters, layout, Categorical(len(layout.actions)))
    return carried.actor(policy.policy_version, policy.greedy)

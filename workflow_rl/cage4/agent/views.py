"""What the policies of a blue team see of CAGE-4, and how a row of the team is made of it.

`env.team_envs` has the envs that the policies learn in, and `policy_team` plays them one episode
at a time. This module needs NumPy and `agents` alone, because submissions contain a copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.team import ACTS, BUSY, CUT_OFF, TeamLayout
from workflow_rl.cage4.agent.belief import (
    FIRST,
    IS_USER,
    N_AGENTS,
    N_PLACES,
    NEVER,
    Belief,
    Bits,
    Joint,
)
from workflow_rl.cage4.agent.gate import Gate
from workflow_rl.cage4.agent.messages import N_WORDS, alerts, spoken
from workflow_rl.cage4.agent.rules import sweep
from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.actions import BLUE

OBSERVATIONS = ("flat", "belief")
REPAIR = frozenset(name for name, kind in BLUE.items() if kind.repairs)
ACTION_SETS = {
    "all": frozenset(BLUE),
    "repair": REPAIR,
    "suspects": REPAIR,
    "steadfast": REPAIR,
}
"""The kinds of actions that a team chooses from, by the name of the set. Of `suspects`, a Remove or
Restore is possible only on a host that the belief suspects. Whoever does neither analyses, or
deploys a decoy. `steadfast` does the same while red shows itself: see `gate`."""
SUSPECTING = ("suspects", "steadfast")

Shown = NDArray[np.int8]
N_SEEN = 20
"""Numbers of the true state that a critic sees of each agent's zones: see `privileged`."""
_HEARD = (N_AGENTS - 1) * scenario4.MESSAGE_BITS
ALL_KINDS = np.array([action.kind for actions in scenario4.ACTIONS for action in actions])
"""The kind of each action in a row of masks `[570]`."""
SLEEP = np.array(scenario4.SLEEP_ACTIONS)


class View:
    """What the team sees in several envs, numbered from 0: the challenge's own vectors, or more in
    a subclass. It has to be told every step.

    n_envs: how many envs there are. listens: whether the agents send messages.
    """

    dtype: type = np.uint8
    reads_raw: ClassVar[bool] = False

    def __init__(self, n_envs: int, listens: bool = False) -> None:
        self.listens = listens

    @staticmethod
    def obs_sizes(listens: bool) -> tuple[int, ...]:
        """Return how many numbers each agent sees."""
        return scenario4.OBS_SIZES

    @staticmethod
    def entities(n_words: int = 1) -> tuple[Mapping[str, Any], ...]:
        """Return each agent's hosts: see `agents.team.TeamLayout`. Flat vectors declare none.

        n_words: how many words each action is chosen with.
        """
        return ()

    def begin(
        self, envs: Sequence[int], obs: Shown, masks: Bits, raw: NDArray[Any]
    ) -> NDArray[np.generic]:
        """Begin episodes in M envs: return what the team sees [M, D].

        obs: [M, 578] and masks: [M, 570], those of the five agents one after the other. raw:
            `raw_record.RAW` [M], or [0] if the view does not read it.
        """
        return obs.astype(self.dtype)

    def after(
        self, envs: Sequence[int], taken: Joint, obs: Shown, raw: NDArray[Any]
    ) -> NDArray[np.generic]:
        """Return what the team sees [M, D] after the actions taken [M, 5], see `begin`.

        taken: a Sleep where an agent is busy.
        """
        return obs.astype(self.dtype)

    def suspected(self, envs: Sequence[int], obs: Shown) -> Bits:
        """Return the hosts of all own zones [M, 7, 16] that an alert is about.

        obs: [M, 578], the last step's, which this method reads events of processes from.
        """
        return obs[:, scenario4.PROCESSES] > 0


DEAR = 10


def _clock() -> NDArray[np.float32]:
    """Return what an agent knows from the step's number alone, `[501, 5, 10]`."""
    table = np.zeros((scenario4.MAX_STEPS + 1, N_AGENTS, 10), np.float32)
    for step in range(scenario4.MAX_STEPS + 1):
        phase = sum(step >= start for start in scenario4.PHASE_STARTS) - 1
        remaining = max(0, scenario4.COUNTED_STEPS - step)
        for agent, zones in enumerate(scenario4.AGENT_ZONES):
            zone = scenario4.ZONES.index(zones[0])
            rewards = scenario4.REWARDS[phase][zone]
            work, impact = -rewards[scenario4.FAILED_WORK], -rewards[scenario4.IMPACT_COST]
            row = [work / DEAR, impact / DEAR, remaining / scenario4.MAX_STEPS]
            row += [np.exp(-remaining / 10), np.exp(-remaining / 60), float(work == DEAR)]
            for later in (1, 2):
                wait = scenario4.PHASE_STARTS[later] - step
                comes = wait > 0 and (zone, later) in scenario4.DECISIVE_PHASES
                row += [np.exp(-wait / 15), np.exp(-wait / 60)] if comes else [0.0, 0.0]
            table[step, agent] = row
    return table


CLOCK = _clock()
SPANS = np.array([5, 40], np.float32)
_TIMES = ("analysed", "attacked", "suspected", "restored", "scanned")
_N_PLAIN = 9
N_FEATURES = _N_PLAIN + len(_TIMES) * len(SPANS)
RHYTHM = 8
"""Steps after which an agent that only knows of sources is asked again."""
N_CONTEXT = CLOCK.shape[-1] + 6 + len(SPANS)


class BeliefView(View):
    """What blue knows from the whole episode: see `belief.Belief`. An agent sees, float32:

    - numbers about the step and the agent, 18: what failed work and impacts cost, how far the end
      and the agent's decisive phase are; its Restores, when it last saw red act, how many hosts
      have a shell, are root's, or are sources, and how many exist;
    - 19 numbers of each of its 16 or 48 hosts, the first number of all hosts before the second:
      whether it exists, has a shell, had one, is root's, is a source, was removed from, is a
      server; how many hosts were taken from it, and its decoys; and for the last Analyse, shell,
      first attack from it, Restore and scan, how long ago they were, as s / (s + steps) with s = 5
      and 40;
    - the messages of the other four agents, 32, if the agents send messages.
    """

    dtype = np.float32
    reads_raw = True

    def __init__(self, n_envs: int, listens: bool = False) -> None:
        super().__init__(n_envs, listens)
        self.belief = Belief(n_envs)
        self._asked = np.full((n_envs, N_AGENTS), NEVER)

    @staticmethod
    def obs_sizes(listens: bool) -> tuple[int, ...]:
        hosts = N_PLACES * N_FEATURES
        return tuple(
            N_CONTEXT + hosts * len(zones) + listens * _HEARD for zones in scenario4.AGENT_ZONES
        )

    @staticmethod
    def entities(n_words: int = 1) -> tuple[Mapping[str, Any], ...]:
        return tuple(_hosts_of(agent, n_words) for agent in range(N_AGENTS))

    def begin(
        self, envs: Sequence[int], obs: Shown, masks: Bits, raw: NDArray[Any]
    ) -> NDArray[np.generic]:
        self.belief.begin(list(envs), masks, raw)
        self._asked[list(envs)] = NEVER
        return self._shown(envs, obs)

    def after(
        self, envs: Sequence[int], taken: Joint, obs: Shown, raw: NDArray[Any]
    ) -> NDArray[np.generic]:
        self.belief.begin_actions(list(envs), taken)
        self.belief.update(list(envs), raw)
        return self._shown(envs, obs)

    def suspects(self, envs: Sequence[int]) -> Bits:
        """Return which of the actions [M, 570] are on no host, or on one that is suspected."""
        possible = np.ones((len(envs), scenario4.N_MASKS), np.bool_)
        possible[:, scenario4.ON_HOSTS["Restore"]] = self.belief.suspects(list(envs))
        possible[:, scenario4.ON_HOSTS["Remove"]] = self.belief.shell[list(envs)]
        return possible

    def asks(self, envs: Sequence[int], may_act: Bits) -> Bits:
        """Return which agents [M, 5] of those that may act have something to decide."""
        numbers, belief = list(envs), self.belief
        asked, step = self._asked[numbers], belief.step[numbers][:, None]
        is_due = (belief.news[numbers] > asked) | (step - asked >= RHYTHM)
        asks: Bits = may_act & (is_due | belief.is_pressing(numbers))
        self._asked[numbers] = np.where(asks, step, asked)
        return asks

    def sweep(self, envs: Sequence[int]) -> Joint:
        """Return the Analyse or DeployDecoy [M, 5] that is worth most to each agent."""
        return sweep(self.belief, list(envs))

    def suspected(self, envs: Sequence[int], obs: Shown) -> Bits:
        return self.belief.suspects(list(envs))

    def _shown(self, envs: Sequence[int], obs: Shown) -> NDArray[np.float32]:
        belief, numbers = self.belief, list(envs)
        step = belief.step[numbers]
        hosts = np.empty((len(numbers), N_FEATURES, *belief.exists.shape[1:]), np.float32)
        flags = (belief.exists, belief.shell, belief.had_shell, belief.root, belief.source)
        for i, flag in enumerate((*flags, belief.removed)):
            hosts[:, i] = flag[numbers]
        hosts[:, 6] = ~IS_USER
        for i, counts in enumerate((belief.n_taken, belief.decoys), start=7):
            hosts[:, i] = np.minimum(counts[numbers], 4) / 4
        for i, name in enumerate(_TIMES):
            ago = (step[:, None, None] - getattr(belief, name)[numbers]).astype(np.float32)
            for j, span in enumerate(SPANS):
                hosts[:, _N_PLAIN + 2 * i + j] = span / (span + ago)
        hosts *= hosts[:, :1]
        context = np.empty((len(numbers), N_AGENTS, N_CONTEXT), np.float32)
        n_clock = CLOCK.shape[-1]
        context[..., :n_clock] = CLOCK[np.minimum(step, scenario4.MAX_STEPS)]
        counts = np.add.reduceat(
            hosts[:, [1, 3, 4, 0]].sum(axis=3), scenario4.FIRST_ZONE_OF_AGENT, axis=2
        ).transpose(0, 2, 1)
        context[..., n_clock : n_clock + 3] = np.minimum(counts[..., :3], 5) / 3
        context[..., n_clock + 3] = counts[..., 3] / (N_PLACES * scenario4.N_ZONES_OF_AGENT)
        context[..., n_clock + 4] = belief.n_restores[numbers] == 0
        context[..., n_clock + 5] = np.log1p(belief.n_restores[numbers]) / 3
        ago = step[:, None] - belief.last_seen[numbers]
        context[..., n_clock + 6 :] = SPANS / (SPANS + ago[..., None])
        parts: list[NDArray[np.generic]] = []
        first_heard = scenario4.FIRST_OBS + np.array(scenario4.OBS_SIZES) - _HEARD
        for agent, first in enumerate(scenario4.FIRST_ZONE_OF_AGENT.tolist()):
            zones = slice(first, first + int(scenario4.N_ZONES_OF_AGENT[agent]))
            parts += [context[:, agent], hosts[:, :, zones].reshape(len(numbers), -1)]
            if self.listens:
                parts.append(obs[:, first_heard[agent] : first_heard[agent] + _HEARD])
        return np.concatenate(parts, axis=1, dtype=np.float32)


def _hosts_of(agent: int, n_words: int) -> Mapping[str, Any]:
    """Return the tables of an agent's hosts, which all actions are done to but those on traffic."""
    n_hosts = N_PLACES * len(scenario4.AGENT_ZONES[agent])
    features = N_CONTEXT + np.arange(n_hosts * N_FEATURES).reshape(N_FEATURES, n_hosts).T
    actions, n_plain = [], 0
    for action in range(scenario4.N_ACTIONS[agent]):
        place = action - FIRST[1:, agent]
        verbs = np.flatnonzero((place >= 0) & (place < n_hosts))
        verb, host = (int(verbs[0]), int(place[verbs[0]])) if len(verbs) else (n_plain, -1)
        n_plain += host < 0
        actions += [[verb * n_words + word, host] for word in range(n_words)]
    zones = [scenario4.ZONES.index(zone) for zone in scenario4.AGENT_ZONES[agent]]
    return {
        "features": features.tolist(),
        "actions": actions,
        "present": features[:, 0].tolist(),
        "edges": edges_among(np.repeat(zones, N_PLACES), np.tile(~IS_USER, len(zones))),
    }


def edges_among(zone: NDArray[np.int64], is_server: Bits) -> Mapping[str, Any]:
    """Return the edges between hosts: of one zone, to the servers of the zone, and between the
    first servers of `scenario4.LINKED` zones.

    zone, is_server: of each host `[N]`. The first server is the first one listed.
    """
    same = zone[:, None] == zone
    n_servers_until = np.cumsum(same & is_server, axis=1).diagonal()
    is_first = is_server & (n_servers_until == 1)
    crossings = scenario4.LINKED[zone[:, None], zone] & np.outer(is_first, is_first)
    joined = {"zone": same, "servers": same & is_server, "zone_crossings": crossings}
    return {name: np.argwhere(pairs).tolist() for name, pairs in joined.items()}


def on_hosts(kind: str, taken: Joint) -> tuple[Bits, Joint]:
    """Return which actions [M, 5] are of a kind that is done to hosts, and the hosts' numbers."""
    host = taken - scenario4.FIRST_OF_KIND[kind]
    return (host >= 0) & (host < scenario4.N_ZONES_OF_AGENT * N_PLACES), host


VIEWS: dict[str, type[View]] = {"flat": View, "belief": BeliefView}


def views_layout(observation: str, own_rewards: bool = False, messages: str = "none") -> TeamLayout:
    """Return where the parts of a row stand for a team with one of OBSERVATIONS.

    own_rewards: whether agents have rewards of their own, and critics may see the true state.
    messages: one of `messages.MESSAGES`. An agent that learns what it sends chooses an action and a
    word together: action * N_WORDS + word.
    """
    n_words = N_WORDS if messages == "learned" else 1
    return TeamLayout(
        scenario4.AGENTS,
        VIEWS[observation].obs_sizes(messages != "none"),
        tuple(n * n_words for n in scenario4.N_ACTIONS),
        own_rewards,
        masked=True,
        state_size=own_rewards * N_AGENTS * N_SEEN,
        entities=VIEWS[observation].entities(n_words),
    )


class ViewRows:
    """Makes rows of `agents.team` of what N envs give, and plays what the policies decide.

    observation: one of OBSERVATIONS. actions: a key of ACTION_SETS. own_rewards, messages: see
    `views_layout`. acts: bool [N, 5], who decides next: an agent that is not busy, and has a
    choice. own: float32 [N, 5 or 0], the agents' own rewards of the
    last step. seen: float32 [N, 5 or 0, N_SEEN], the true state after that step. Who steps the envs
    fills `own` and `seen` before `after`. sent: bool [N, 5, 8], the messages of the coming step, or
    None.
    """

    def __init__(
        self,
        n_envs: int,
        observation: str,
        actions: str,
        own_rewards: bool = False,
        messages: str = "none",
    ) -> None:
        talks = messages != "none"
        self._view = VIEWS[observation](n_envs, talks)
        self.reads_raw = self._view.reads_raw
        self._sweeping, self._gate = None, None
        if actions in SUSPECTING:
            assert isinstance(self._view, BeliefView)
            self._sweeping = self._view
            self._gate = Gate(self._view.belief) if actions == "steadfast" else None
        self._alerts, self._learned = messages == "alerts", messages == "learned"
        self._chosen_from = np.isin(ALL_KINDS, sorted(ACTION_SETS[actions]))
        self._masks = np.zeros((n_envs, scenario4.N_MASKS), np.bool_)
        self.acts, self._free = np.zeros((2, n_envs, N_AGENTS), np.bool_)
        self.own = np.zeros((n_envs, own_rewards * N_AGENTS), np.float32)
        self.seen = np.zeros((*self.own.shape, N_SEEN), np.float32)
        sends = talks or self._gate
        self.sent = (
            np.zeros((n_envs, N_AGENTS, scenario4.MESSAGE_BITS), np.bool_) if sends else None
        )

    def play(self, envs: Sequence[int], decided: Joint) -> Joint:
        """Return the actions [M, 5] of the coming step. Who decides nothing sleeps; of `suspects`,
        it sweeps, as does who decides to sleep.

        decided: [M, 5], of the spaces of `views_layout`. An agent that learned its messages sends
        the word of its last decision until it decides again.
        """
        acts = self.acts[envs]
        if self._learned:
            assert self.sent is not None
            decided, words = np.divmod(decided, N_WORDS)
            self.sent[envs] = np.where(acts[:, :, None], spoken(words), self.sent[envs])
        taken: Joint = np.where(acts, decided, SLEEP)
        if self._sweeping:
            waits = self._free[envs] & (taken == SLEEP)
            sweeping = self._sweeping.sweep(envs)
            taken = np.where(waits, sweeping, taken)
        if self._gate:
            taken = np.where(self._free[envs], self._gate.instead(list(envs), taken), SLEEP)
        return taken

    def begin(
        self, envs: Sequence[int], obs: Shown, masks: Bits, raw: NDArray[Any], busy: Joint
    ) -> NDArray[np.generic]:
        """Begin episodes in M envs: return their first rows. busy: coming busy steps [M, 5]. For
        the other arguments see `View.begin`."""
        self._masks[envs] = masks & self._chosen_from
        self.own[envs] = self.seen[envs] = 0
        if self.sent is not None:
            self.sent[envs] = False
        if self._gate:
            self._gate.begin(list(envs))
        return self._rows(envs, self._view.begin(envs, obs, masks, raw), obs, busy)

    def after(
        self,
        envs: Sequence[int],
        taken: Joint,
        obs: Shown,
        raw: NDArray[Any],
        busy: Joint,
        ended: Bits,
    ) -> NDArray[np.generic]:
        """Return the rows of M envs after a step. ended: bool [M]; see `View.after`."""
        seen = self._view.after(envs, taken, obs, raw)
        if self._gate:
            self._gate.see(list(envs), obs, raw)
        rows = self._rows(envs, seen, obs, busy)
        if ended.any():
            start = seen.shape[1]
            rows[np.flatnonzero(ended), start : start + N_AGENTS] = CUT_OFF
        return rows

    def _rows(
        self, envs: Sequence[int], seen: NDArray[np.generic], obs: Shown, busy: Joint
    ) -> NDArray[np.generic]:
        masks = self._masks[envs]
        acts = self._free[envs] = busy == 0
        if self._sweeping:
            masks &= self._sweeping.suspects(envs)
            n_options = np.add.reduceat(masks, scenario4.FIRST_ACTION, axis=1, dtype=np.int64)
            acts = self._sweeping.asks(envs, acts & (n_options > 1))
        self.acts[envs] = acts
        if self._gate:
            assert self.sent is not None
            self.sent[envs] = self._gate.says(list(envs))
        if self._alerts:
            assert self.sent is not None
            self.sent[envs] = alerts(self._view.suspected(envs, obs))
        if self._learned:
            masks = np.repeat(masks, N_WORDS, axis=1)
        state = self.seen[envs].reshape(len(envs), -1)
        parts = [seen, np.where(acts, ACTS, BUSY), self.own[envs], state, masks]
        dtype = np.float32 if state.size else seen.dtype
        return np.concatenate(parts, axis=1, dtype=dtype, casting="unsafe")

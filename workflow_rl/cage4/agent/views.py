"""What the policies of a blue team see of CAGE-4, and how a row of the team is made of it.

`env.team_envs` has the envs that the policies learn in, and `policy_team` plays them one episode
at a time. This module needs NumPy and `agents` alone, because submissions contain a copy.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.team import ACTS, BUSY, CUT_OFF, TeamLayout
from workflow_rl.cage4 import scenario4
from workflow_rl.cage4.agent.belief import Belief, Bits
from workflow_rl.cage4.agent.messages import N_WORDS, alerts, spoken

OBSERVATIONS = ("flat", "belief")
REPAIR = frozenset({"Sleep", "Remove", "Restore"})
ACTION_SETS = {
    "all": frozenset(scenario4.DURATIONS),
    "repair": REPAIR,
    "suspects": REPAIR,
}
"""The kinds of actions that a team chooses from, by the name of the set. Of `suspects`, a Remove or
Restore is possible only on a host that the belief suspects."""

Shown = NDArray[np.int8]
Joint = NDArray[np.int64]
N_SEEN = 20
"""Numbers of the true state that a critic sees of each agent's zones: see `privileged`."""
_HEARD = (len(scenario4.AGENTS) - 1) * scenario4.MESSAGE_BITS
_ALL_KINDS = np.array([action.kind for actions in scenario4.ACTIONS for action in actions])
SLEEP = np.array(scenario4.SLEEP_ACTIONS)
_CLOCK_SIZE = len(scenario4.MISSION_PHASES) + 2
_N_CONCLUSIONS = Belief(np.zeros((1, scenario4.N_MASKS), np.bool_)).features().shape[-1]
_BELIEF_ZONE_SIZE = (
    scenario4.BITS_OF_A_ZONE
    - len(scenario4.SORTED_ZONES)
    + scenario4.HOSTS_OF_A_ZONE * _N_CONCLUSIONS
)


class View:
    """What the team sees in several envs, numbered from 0: the challenge's own vectors, or more in
    a subclass. It has to be told every step.

    max_steps: the length of episodes. listens: whether the agents send messages.
    """

    dtype: type = np.uint8

    def __init__(self, max_steps: int, listens: bool = False) -> None:
        self.max_steps = max_steps
        self.listens = listens

    @staticmethod
    def obs_sizes(listens: bool) -> tuple[int, ...]:
        """Return how many numbers each agent sees."""
        return scenario4.OBS_SIZES

    def begin(self, envs: Sequence[int], obs: Shown, masks: Bits) -> NDArray[np.generic]:
        """Begin episodes in M envs: return what the team sees [M, D].

        obs: [M, 578] and masks: [M, 570], those of the five agents one after the other.
        """
        return obs.astype(self.dtype)

    def after(self, envs: Sequence[int], taken: Joint, obs: Shown) -> NDArray[np.generic]:
        """Return what the team sees [M, D], given obs [M, 578] after the actions taken [M, 5].

        taken: a Sleep where an agent decided nothing.
        """
        return obs.astype(self.dtype)

    def suspects(self, envs: Sequence[int]) -> Bits:
        """Return which of the actions [M, 570] are on no host, or on one that is suspected."""
        raise NotImplementedError("these vectors remember nothing")

    def suspected(self, envs: Sequence[int], obs: Shown) -> Bits:
        """Return the hosts of all own zones [M, 7, 16] that an alert is about.

        obs: [M, 578], the last step's, which this method reads events of processes from.
        """
        return obs[:, scenario4.PROCESSES] > 0


class BeliefView(View):
    """What blue concludes from the whole episode: see `belief.Belief`. An agent sees, float32:

    - the phase, one of three; how much of the episode is over, and of the phase;
    - per own zone: which zones it blocks, 9; which it should block, 9; events of processes, 16;
      events of connections, 16; the conclusions on its 16 hosts;
    - the messages of the other four agents, 32, if the agents send messages.
    """

    dtype = np.float32

    @staticmethod
    def obs_sizes(listens: bool) -> tuple[int, ...]:
        heard = listens * _HEARD
        return tuple(
            _CLOCK_SIZE + len(zones) * _BELIEF_ZONE_SIZE + heard for zones in scenario4.AGENT_ZONES
        )

    def __init__(self, max_steps: int, listens: bool = False) -> None:
        super().__init__(max_steps, listens)
        # Envs whose episodes began together share a belief: one call updates it for all of them.
        self._beliefs: dict[int, tuple[Belief, int]] = {}

    def begin(self, envs: Sequence[int], obs: Shown, masks: Bits) -> NDArray[np.generic]:
        belief = Belief(masks)
        self._beliefs.update({env: (belief, row) for row, env in enumerate(envs)})
        return self._shown(belief, obs)

    def after(self, envs: Sequence[int], taken: Joint, obs: Shown) -> NDArray[np.generic]:
        shown = np.empty((len(envs), sum(self.obs_sizes(self.listens))), np.float32)
        for belief, rows in self._groups(envs):
            _note(belief, taken[rows])
            shown[rows] = self._shown(belief, obs[rows])
        return shown

    def suspects(self, envs: Sequence[int]) -> Bits:
        possible = np.ones((len(envs), scenario4.N_MASKS), np.bool_)
        for belief, rows in self._groups(envs):
            suspected = _attacked(belief) | (belief.first_foothold > 0)
            possible[np.array(rows)[:, None, None], scenario4.ON_HOSTS["Restore"]] = suspected
            possible[np.array(rows)[:, None, None], scenario4.ON_HOSTS["Remove"]] = belief.doubtful
        return possible

    def suspected(self, envs: Sequence[int], obs: Shown) -> Bits:
        found = np.empty((len(envs), *scenario4.PROCESSES.shape), np.bool_)
        for belief, rows in self._groups(envs):
            found[rows] = _attacked(belief)
        return found

    def _groups(self, envs: Sequence[int]) -> list[tuple[Belief, list[int]]]:
        """Return the beliefs of these envs, each with the places of its envs, in the order of the
        belief's rows. A belief of which only some envs are named is divided."""
        groups: dict[int, tuple[Belief, list[tuple[int, int]]]] = {}
        for place, env in enumerate(envs):
            belief, row = self._beliefs[env]
            groups.setdefault(id(belief), (belief, []))[1].append((row, place))
        whole = []
        for belief, members in groups.values():
            rows, places = map(list, zip(*sorted(members), strict=True))
            if len(rows) < len(belief.exists):
                belief = _part(belief, rows)
                self._beliefs.update({envs[place]: (belief, n) for n, place in enumerate(places)})
            whole.append((belief, places))
        return whole

    def _shown(self, belief: Belief, obs: Shown) -> NDArray[np.float32]:
        """Read a step's observations, and return what the team sees."""
        step = belief.step
        belief.update(obs)
        conclusions = belief.features().reshape(len(obs), len(belief.exists[0]), -1)
        phase = obs[:, 0]
        clock = np.zeros((len(obs), _CLOCK_SIZE), np.float32)
        clock[np.arange(len(obs)), phase] = 1
        clock[:, -2] = step / scenario4.MAX_STEPS
        clock[:, -1] = 3 * step / self.max_steps - phase
        parts: list[NDArray[np.generic]] = []
        for agent, zones in enumerate(scenario4.AGENT_ZONES):
            start = scenario4.FIRST_OBS[agent] + 1
            parts.append(clock)
            for i in range(len(zones)):
                end = start + scenario4.BITS_OF_A_ZONE
                parts += [obs[:, start + len(scenario4.SORTED_ZONES) : end]]
                parts += [conclusions[:, scenario4.FIRST_ZONE_OF_AGENT[agent] + i]]
                start = end
            if self.listens:
                parts.append(obs[:, start : start + _HEARD])
        return np.concatenate(parts, axis=1, dtype=np.float32)


def on_hosts(kind: str, taken: Joint) -> tuple[Bits, Joint]:
    """Return which actions [M, 5] are a Restore or a Remove, and the numbers of their hosts."""
    host = taken - scenario4.FIRST_OF_KIND[kind]
    return (host >= 0) & (host < scenario4.N_ZONES_OF_AGENT * scenario4.HOSTS_OF_A_ZONE), host


def _attacked(belief: Belief) -> Bits:
    """Return the hosts [N, 7, 16] that events of attacks were seen on since their Restore."""
    attacked: Bits = belief.exploited | belief.ever_doubtful | belief.sources
    return attacked


def _note(belief: Belief, taken: Joint) -> None:
    """Tell a belief which Restores and Removes began. taken: [N, 5]."""
    for kind, note in (("Restore", belief.restore), ("Remove", belief.remove)):
        of_kind, host = on_hosts(kind, taken)
        for episode, agent in np.argwhere(of_kind).tolist():
            zone, place = divmod(int(host[episode, agent]), scenario4.HOSTS_OF_A_ZONE)
            note(
                np.array([episode]),
                int(scenario4.FIRST_ZONE_OF_AGENT[agent]) + zone,
                np.array([place]),
            )


def _part(belief: Belief, rows: list[int]) -> Belief:
    """Return the belief of some of its episodes."""
    part = copy.copy(belief)
    for name, value in vars(belief).items():
        if isinstance(value, np.ndarray):
            setattr(part, name, value[rows])
    return part


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
        state_size=own_rewards * len(scenario4.AGENTS) * N_SEEN,
    )


class ViewRows:
    """Makes rows of `agents.team` of what N envs give, and plays what the policies decide.

    observation: one of OBSERVATIONS. actions: a key of ACTION_SETS. max_steps: the length of
    episodes. own_rewards, messages: see `layout_of`. acts: bool [N, 5], who decides next: an agent
    that is not busy, and has a choice. own: float32 [N, 5 or 0], the agents' own rewards of the
    last step. seen: float32 [N, 5 or 0, N_SEEN], the true state after that step. Who steps the envs
    fills `own` and `seen` before `after`. sent: bool [N, 5, 8], the messages of the coming step, or
    None.
    """

    def __init__(
        self,
        n_envs: int,
        observation: str,
        actions: str,
        max_steps: int,
        own_rewards: bool = False,
        messages: str = "none",
    ) -> None:
        talks = messages != "none"
        self._view = VIEWS[observation](max_steps, talks)
        self._only_suspects = actions == "suspects"
        self._alerts, self._learned = messages == "alerts", messages == "learned"
        self._chosen_from = np.isin(_ALL_KINDS, sorted(ACTION_SETS[actions]))
        self._masks = np.zeros((n_envs, scenario4.N_MASKS), np.bool_)
        self.acts = np.zeros((n_envs, len(scenario4.AGENTS)), np.bool_)
        self.own = np.zeros((n_envs, own_rewards * len(scenario4.AGENTS)), np.float32)
        self.seen = np.zeros((*self.own.shape, N_SEEN), np.float32)
        self.sent = (
            np.zeros((n_envs, len(scenario4.AGENTS), scenario4.MESSAGE_BITS), np.bool_)
            if talks
            else None
        )

    def play(self, envs: Sequence[int], decided: Joint) -> Joint:
        """Return the actions [M, 5] of the coming step. Who decides nothing sleeps.

        decided: [M, 5], of the spaces of `layout_of`. An agent that learned its messages sends the
        word of its last decision until it decides again.
        """
        acts = self.acts[envs]
        if self._learned:
            assert self.sent is not None
            decided, words = np.divmod(decided, N_WORDS)
            self.sent[envs] = np.where(acts[:, :, None], spoken(words), self.sent[envs])
        return np.where(acts, decided, SLEEP)

    def begin(
        self, envs: Sequence[int], obs: Shown, masks: Bits, busy: Joint
    ) -> NDArray[np.generic]:
        """Begin episodes in M envs: return their first rows. busy: coming busy steps [M, 5]."""
        self._masks[envs] = masks & self._chosen_from
        self.own[envs] = self.seen[envs] = 0
        if self.sent is not None:
            self.sent[envs] = False
        return self._rows(envs, self._view.begin(envs, obs, masks), obs, busy)

    def after(
        self, envs: Sequence[int], taken: Joint, obs: Shown, busy: Joint, ended: Bits
    ) -> NDArray[np.generic]:
        """Return the rows of M envs after a step. ended: bool [M]; see `View.after`."""
        seen = self._view.after(envs, taken, obs)
        rows = self._rows(envs, seen, obs, busy)
        if ended.any():
            start = seen.shape[1]
            rows[np.flatnonzero(ended), start : start + len(scenario4.AGENTS)] = CUT_OFF
        return rows

    def _rows(
        self, envs: Sequence[int], seen: NDArray[np.generic], obs: Shown, busy: Joint
    ) -> NDArray[np.generic]:
        masks = self._masks[envs]
        acts = busy == 0
        if self._only_suspects:
            masks &= self._view.suspects(envs)
            acts &= np.add.reduceat(masks, scenario4.FIRST_ACTION, axis=1, dtype=np.int64) > 1
        self.acts[envs] = acts
        if self._alerts:
            assert self.sent is not None
            self.sent[envs] = alerts(self._view.suspected(envs, obs))
        if self._learned:
            masks = np.repeat(masks, N_WORDS, axis=1)
        state = self.seen[envs].reshape(len(envs), -1)
        parts = [seen, np.where(acts, ACTS, BUSY), self.own[envs], state, masks]
        dtype = np.float32 if state.size else seen.dtype
        return np.concatenate(parts, axis=1, dtype=dtype, casting="unsafe")

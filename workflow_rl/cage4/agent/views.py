"""What the policies of a blue team see of CAGE-4, and the rows that they read.

The policies learn in the envs of `env.team_envs`, and play in `policy_team`. This module needs
NumPy and `agents` alone, because submissions contain a copy."""

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

OBSERVATIONS = ("flat", "belief", "hidden")
REPAIR = frozenset(name for name, kind in BLUE.items() if kind.repairs)
ACTION_SETS = {
    "all": frozenset(BLUE),
    "repair": REPAIR,
    "suspects": REPAIR,
    "steadfast": REPAIR,
}
"""The kinds of actions that a team chooses from, by the name of the action set.

With `suspects`, Remove and Restore are possible only on hosts that the belief suspects. A free
agent without a Remove or Restore analyses a host or deploys a decoy. `steadfast` equals `suspects`
while the gate is closed: see `gate`."""
SUSPECTING = ("suspects", "steadfast")

Shown = NDArray[np.int8]
N_SEEN = 20
"""How many numbers of the true state a critic sees for each agent: see `compiled.privileged`."""
_HEARD = (N_AGENTS - 1) * scenario4.MESSAGE_BITS
ALL_KINDS = np.array([action.kind for actions in scenario4.ACTIONS for action in actions])
"""The kind of each action in a row of masks `[570]`."""
SLEEP = np.array(scenario4.SLEEP_ACTIONS)


class View:
    """What the team sees in several envs, numbered from 0: the challenge's own vectors.

    A subclass may show more. The caller passes every step to `after`. listens: whether the agents
    send messages, and so receive the other agents' messages."""

    dtype: type = np.uint8
    reads_raw: ClassVar[bool] = False

    def __init__(self, n_envs: int, listens: bool = False) -> None:
        self.listens = listens

    @classmethod
    def obs_sizes(cls, listens: bool) -> tuple[int, ...]:
        """Return how many numbers each agent sees."""
        return scenario4.OBS_SIZES

    @classmethod
    def entities(cls, n_words: int = 1) -> tuple[Mapping[str, Any], ...]:
        """Return each agent's hosts: see `agents.team.TeamLayout`. Flat vectors name no hosts.

        n_words: how many words an agent can combine with each action."""
        return ()

    def begin(
        self, envs: Sequence[int], obs: Shown, masks: Bits, raw: NDArray[Any]
    ) -> NDArray[np.generic]:
        """Begin episodes in M envs: return what the team sees [M, D].

        obs: [M, 578] and masks: [M, 570], each joined from the five agents.
        raw: `raw_record.RAW` [M], or [0] if the view does not read the record."""
        return obs.astype(self.dtype)

    def after(
        self, envs: Sequence[int], taken: Joint, obs: Shown, raw: NDArray[Any]
    ) -> NDArray[np.generic]:
        """Return what the team sees [M, D] after a step. For the other arguments see `begin`.

        taken: [M, 5], the actions that were played. A busy agent's action is a Sleep."""
        return obs.astype(self.dtype)

    def suspected(self, envs: Sequence[int], obs: Shown) -> Bits:
        """Return the hosts of all own zones [M, 7, 16] that an alert is about.

        obs: [M, 578], the observations of the last step. Here, an event of a process is an alert.
        """
        return obs[:, scenario4.PROCESSES] > 0


DEAR = 10
"""What a green's failed work and an Impact cost in a zone's decisive phase."""


def _clock() -> NDArray[np.float32]:
    """Return what each agent knows from the step's number alone, `[501, 5, 10]`.

    The numbers are about the agent's first zone: two costs, three functions of the time to the end,
    whether the phase is decisive, and two functions of the time to each later decisive phase."""
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
                nearness = [np.exp(-wait / 15), np.exp(-wait / 60)]
                row += nearness if comes else [0.0, 0.0]
            table[step, agent] = row
    return table


CLOCK = _clock()
SPANS = np.array([5, 40], np.float32)
# A host's features are the flags, whether the host is a server, the counts, and each time twice.
_FLAGS = ("exists", "shell", "had_shell", "root", "source", "removed")
_COUNTS = ("n_taken", "decoys")
_TIMES = ("analysed", "attacked", "suspected", "restored", "scanned")
_IS_SERVER = len(_FLAGS)
_FIRST_COUNT = _IS_SERVER + 1
_FIRST_TIME = _FIRST_COUNT + len(_COUNTS)
N_FEATURES = _FIRST_TIME + len(_TIMES) * len(SPANS)
RHYTHM = 8
"""The number of steps after which an agent decides again, if nothing makes it decide earlier."""
N_CONTEXT = CLOCK.shape[-1] + 6 + len(SPANS)


class BeliefView(View):
    """What blue knows from the whole episode: see `belief.Belief`. An agent sees, float32:

    - 18 numbers about the step and the agent. They are the ten numbers of CLOCK, how many of the
      agent's hosts have a shell, have red's root, are sources, or exist, two numbers of the agent's
      Restores, and when the agent last saw red act.
    - 19 numbers of each of its 16 or 48 hosts. The first number of all hosts comes before the
      second number of all hosts. The numbers are the host's attributes in `Belief`, and whether the
      host is a server. A time is shown as s / (s + steps since the time), for s = 5 and s = 40.
    - 32 bits of messages from the other four agents, if the agents send messages.

    gate: if a caller sets a gate, the view passes every step to the gate, too."""

    dtype = np.float32
    reads_raw = True
    n_features: ClassVar[int] = N_FEATURES

    def __init__(self, n_envs: int, listens: bool = False) -> None:
        super().__init__(n_envs, listens)
        self.belief = Belief(n_envs)
        self.gate: Gate | None = None
        self._asked = np.full((n_envs, N_AGENTS), NEVER)

    @classmethod
    def obs_sizes(cls, listens: bool) -> tuple[int, ...]:
        hosts = N_PLACES * cls.n_features
        heard = _HEARD if listens else 0
        return tuple(N_CONTEXT + hosts * len(zones) + heard for zones in scenario4.AGENT_ZONES)

    @classmethod
    def entities(cls, n_words: int = 1) -> tuple[Mapping[str, Any], ...]:
        return tuple(_hosts_of(agent, n_words, cls.n_features) for agent in range(N_AGENTS))

    def begin(
        self, envs: Sequence[int], obs: Shown, masks: Bits, raw: NDArray[Any]
    ) -> NDArray[np.generic]:
        self.belief.begin(list(envs), masks, raw)
        if self.gate:
            self.gate.begin(list(envs))
        self._asked[list(envs)] = NEVER
        return self._shown(envs, obs)

    def after(
        self, envs: Sequence[int], taken: Joint, obs: Shown, raw: NDArray[Any]
    ) -> NDArray[np.generic]:
        self.belief.begin_actions(list(envs), taken)
        self.belief.update(list(envs), raw)
        if self.gate:
            self.gate.see(list(envs), obs, raw)
        return self._shown(envs, obs)

    def suspects(self, envs: Sequence[int]) -> Bits:
        """Return which actions [M, 570] remain: Remove and Restore only on suspected hosts."""
        possible = np.ones((len(envs), scenario4.N_MASKS), np.bool_)
        possible[:, scenario4.ON_HOSTS["Restore"]] = self.belief.suspects(list(envs))
        possible[:, scenario4.ON_HOSTS["Remove"]] = self.belief.shell[list(envs)]
        return possible

    def asks(self, envs: Sequence[int], may_act: Bits) -> Bits:
        """Return which of the agents that may act decide now, bool [M, 5]. An agent decides after
        news, while it knows of a shell or root, and RHYTHM steps after its last decision."""
        numbers = list(envs)
        belief = self.belief
        asked = self._asked[numbers]
        step = belief.step[numbers][:, None]
        is_due = (belief.news[numbers] > asked) | (step - asked >= RHYTHM)
        asks: Bits = may_act & (is_due | belief.is_pressing(numbers))
        self._asked[numbers] = np.where(asks, step, asked)
        return asks

    def suspected(self, envs: Sequence[int], obs: Shown) -> Bits:
        return self.belief.suspects(list(envs))

    def _shown(self, envs: Sequence[int], obs: Shown) -> NDArray[np.float32]:
        numbers = list(envs)
        hosts = self._of_hosts(numbers)
        context = self._context(numbers, hosts)
        parts: list[NDArray[np.generic]] = []
        first_heard = scenario4.FIRST_OBS + np.array(scenario4.OBS_SIZES) - _HEARD
        for agent, first in enumerate(scenario4.FIRST_ZONE_OF_AGENT.tolist()):
            zones = slice(first, first + int(scenario4.N_ZONES_OF_AGENT[agent]))
            parts += [context[:, agent], hosts[:, :, zones].reshape(len(numbers), -1)]
            if self.listens:
                parts.append(obs[:, first_heard[agent] : first_heard[agent] + _HEARD])
        return np.concatenate(parts, axis=1, dtype=np.float32)

    def _of_hosts(self, numbers: list[int]) -> NDArray[np.float32]:
        """Return the features of all hosts, [M, n_features, 7, 16]; 0 if a host does not exist."""
        belief = self.belief
        hosts = np.empty((len(numbers), N_FEATURES, *belief.exists.shape[1:]), np.float32)
        for i, name in enumerate(_FLAGS):
            hosts[:, i] = getattr(belief, name)[numbers]
        hosts[:, _IS_SERVER] = ~IS_USER
        for i, name in enumerate(_COUNTS, start=_FIRST_COUNT):
            hosts[:, i] = np.minimum(getattr(belief, name)[numbers], 4) / 4
        step = belief.step[numbers][:, None, None]
        column = _FIRST_TIME
        for name in _TIMES:
            ago = (step - getattr(belief, name)[numbers]).astype(np.float32)
            for span in SPANS:
                hosts[:, column] = span / (span + ago)
                column += 1
        # The first feature says whether the host exists.
        hosts *= hosts[:, :1]
        return hosts

    def _context(self, numbers: list[int], hosts: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the numbers about the step and each agent, [M, 5, N_CONTEXT]."""
        belief = self.belief
        step = belief.step[numbers]
        context = np.empty((len(numbers), N_AGENTS, N_CONTEXT), np.float32)
        n_clock = CLOCK.shape[-1]
        context[..., :n_clock] = CLOCK[np.minimum(step, scenario4.MAX_STEPS)]
        summed = [_FLAGS.index(name) for name in ("shell", "root", "source", "exists")]
        of_zones = hosts[:, summed].sum(axis=3)
        of_agents = np.add.reduceat(of_zones, scenario4.FIRST_ZONE_OF_AGENT, axis=2)
        counts = of_agents.transpose(0, 2, 1)
        context[..., n_clock : n_clock + 3] = np.minimum(counts[..., :3], 5) / 3
        context[..., n_clock + 3] = counts[..., 3] / (N_PLACES * scenario4.N_ZONES_OF_AGENT)
        context[..., n_clock + 4] = belief.n_restores[numbers] == 0
        context[..., n_clock + 5] = np.log1p(belief.n_restores[numbers]) / 3
        ago = step[:, None] - belief.last_seen[numbers]
        context[..., n_clock + 6 :] = SPANS / (SPANS + ago[..., None])
        return context


class HiddenView(BeliefView):
    """What `BeliefView` shows, and a 20th number of each host: the chance that a session of red
    hides on the host. The messages that `Gate` reads do not change this chance."""

    n_features = N_FEATURES + 1

    def __init__(self, n_envs: int, listens: bool = False) -> None:
        super().__init__(n_envs, listens)
        self.gate = Gate(self.belief)

    def _of_hosts(self, numbers: list[int]) -> NDArray[np.float32]:
        assert self.gate is not None
        chance = self.gate.hidden(numbers)[:, None]
        return np.concatenate([super()._of_hosts(numbers), chance], axis=1, dtype=np.float32)


def _hosts_of(agent: int, n_words: int, n_features: int) -> Mapping[str, Any]:
    """Return an agent's entities and their actions: see `agents.team.TeamLayout`."""
    n_hosts = N_PLACES * len(scenario4.AGENT_ZONES[agent])
    features = N_CONTEXT + np.arange(n_hosts * n_features).reshape(n_features, n_hosts).T
    actions = []
    n_without_host = 0
    for action in range(scenario4.N_ACTIONS[agent]):
        place = action - FIRST[1:, agent]
        verbs = np.flatnonzero((place >= 0) & (place < n_hosts))
        if len(verbs):
            verb = int(verbs[0])
            host = int(place[verb])
        else:
            verb, host = n_without_host, -1
            n_without_host += 1
        actions += [[verb * n_words + word, host] for word in range(n_words)]
    zones = [scenario4.ZONES.index(zone) for zone in scenario4.AGENT_ZONES[agent]]
    return {
        "features": features.tolist(),
        "actions": actions,
        "present": features[:, 0].tolist(),
        "edges": edges_among(np.repeat(zones, N_PLACES), np.tile(~IS_USER, len(zones))),
    }


def edges_among(zone: NDArray[np.int64], is_server: Bits) -> Mapping[str, Any]:
    """Return the edges between hosts, as pairs of indices, by name.

    `zone` joins hosts of one zone, and `servers` joins hosts to the servers of their zone.
    `zone_crossings` joins the first servers of `scenario4.LINKED` zones.

    zone: `[N]`, each host's zone. is_server: `[N]`. A zone's first server has the lowest index."""
    is_same_zone = zone[:, None] == zone
    # For each host, the diagonal counts the servers of its zone up to the host itself.
    n_servers_until = np.cumsum(is_same_zone & is_server, axis=1).diagonal()
    is_first = is_server & (n_servers_until == 1)
    joined = {
        "zone": is_same_zone,
        "servers": is_same_zone & is_server,
        "zone_crossings": scenario4.LINKED[zone[:, None], zone] & np.outer(is_first, is_first),
    }
    return {name: np.argwhere(pairs).tolist() for name, pairs in joined.items()}


def on_hosts(kind: str, taken: Joint) -> Bits:
    """Return which actions [M, 5] are of this kind. kind: a key of `scenario4.ON_HOSTS`."""
    host = taken - scenario4.FIRST_OF_KIND[kind]
    return (host >= 0) & (host < scenario4.N_ZONES_OF_AGENT * N_PLACES)


VIEWS: dict[str, type[View]] = {"flat": View, "belief": BeliefView, "hidden": HiddenView}


def views_layout(observation: str, own_rewards: bool = False, messages: str = "none") -> TeamLayout:
    """Return the layout of a team's row. observation: one of OBSERVATIONS.

    own_rewards: whether agents have rewards of their own, and critics may see the true state.
    messages: one of `messages.MESSAGES`. If it is "learned", an agent chooses an action and a word
        together, as the index action * N_WORDS + word."""
    n_words = N_WORDS if messages == "learned" else 1
    return TeamLayout(
        scenario4.AGENTS,
        VIEWS[observation].obs_sizes(messages != "none"),
        tuple(n * n_words for n in scenario4.N_ACTIONS),
        own_rewards,
        masked=True,
        state_size=N_AGENTS * N_SEEN if own_rewards else 0,
        entities=VIEWS[observation].entities(n_words),
    )


class ViewRows:
    """Makes the rows that policies of N envs read, and turns their decisions into actions.

    observation: one of OBSERVATIONS. actions: a key of ACTION_SETS. own_rewards, messages: see
        `views_layout`.

    Attributes:
        acts: bool [N, 5], which agents decide next. Only agents that are not busy can decide.
        own: float32 [N, 5 or 0], the agents' own rewards of the last step.
        seen: float32 [N, 5 or 0, N_SEEN], the true state after the last step. The caller fills
            `own` and `seen` before it calls `after`.
        sent: bool [N, 5, 8], the messages of the coming step, or None if the team sends none."""

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
        self._sweeping: BeliefView | None = None
        self._gate: Gate | None = None
        if actions in SUSPECTING:
            assert isinstance(self._view, BeliefView)
            self._sweeping = self._view
            if actions == "steadfast":
                if self._view.gate is None:
                    self._view.gate = Gate(self._view.belief)
                self._gate = self._view.gate
        self._alerts = messages == "alerts"
        self._learned = messages == "learned"
        self._chosen_from = np.isin(ALL_KINDS, sorted(ACTION_SETS[actions]))
        self._masks = np.zeros((n_envs, scenario4.N_MASKS), np.bool_)
        self.acts, self._free = np.zeros((2, n_envs, N_AGENTS), np.bool_)
        self.own = np.zeros((n_envs, N_AGENTS if own_rewards else 0), np.float32)
        self.seen = np.zeros((*self.own.shape, N_SEEN), np.float32)
        self.sent: Bits | None = None
        if talks or self._gate:
            self.sent = np.zeros((n_envs, N_AGENTS, scenario4.MESSAGE_BITS), np.bool_)

    def play(self, envs: Sequence[int], decided: Joint) -> Joint:
        """Return the actions [M, 5] of the coming step.

        An agent that does not decide sleeps. With an action set of SUSPECTING, a free agent sweeps
        instead of sleeping: see `rules.sweep`.

        decided: [M, 5], indices in the spaces of `views_layout`. With learned messages, an agent
            sends the word of its last decision until it decides again.
        """
        acts = self.acts[envs]
        if self._learned:
            assert self.sent is not None
            decided, words = np.divmod(decided, N_WORDS)
            self.sent[envs] = np.where(acts[:, :, None], spoken(words), self.sent[envs])
        taken: Joint = np.where(acts, decided, SLEEP)
        if self._sweeping:
            waits = self._free[envs] & (taken == SLEEP)
            taken = np.where(waits, sweep(self._sweeping.belief, list(envs)), taken)
        if self._gate:
            taken = np.where(self._free[envs], self._gate.instead(list(envs), taken), SLEEP)
        return taken

    def begin(
        self, envs: Sequence[int], obs: Shown, masks: Bits, raw: NDArray[Any], busy: Joint
    ) -> NDArray[np.generic]:
        """Begin episodes in M envs, and return the episodes' first rows. busy: see `BlueSees`. For
        the other arguments see `View.begin`."""
        self._masks[envs] = masks & self._chosen_from
        self.own[envs] = self.seen[envs] = 0
        if self.sent is not None:
            self.sent[envs] = False
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
        """Return the rows of M envs after a step. ended: bool [M], whether this step ended the
        episode. For the other arguments see `View.after`."""
        seen = self._view.after(envs, taken, obs, raw)
        rows = self._rows(envs, seen, obs, busy)
        if ended.any():
            start = seen.shape[1]
            rows[np.flatnonzero(ended), start : start + N_AGENTS] = CUT_OFF
        return rows

    def _rows(
        self, envs: Sequence[int], seen: NDArray[np.generic], obs: Shown, busy: Joint
    ) -> NDArray[np.generic]:
        masks = self._masks[envs]
        acts = busy == 0
        self._free[envs] = acts
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

"""A team of rules on the belief: it restores and removes where that is worth its price."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4 import scenario4
from workflow_rl.cage4.agent.belief import NEVER, Belief, Bits


class Rules(NamedTuple):
    """What the team does, chosen on episodes that are not reported. Times are in steps.

    patience: how long after the first activity of a zone's red agent the team restores all hosts
        that may be the first foothold. Before, scans exclude some of them.
    few: so few possible hosts are restored at once.
    lead: how long before a decisive phase the team restores possible hosts and doubtful ones.
    last: a Restore in the last steps does not pay.
    restores_sources: whether hosts are restored that attacks came from.
    removes_doubtful: whether Remove follows on a doubtful event.
    restores_doubtful: whether doubtful hosts are restored for a decisive phase.
    """

    patience: int = 80
    few: int = 1
    lead: int = 30
    last: int = 12
    restores_sources: bool = True
    removes_doubtful: bool = True
    restores_doubtful: bool = True


class BatchedRuleTeam:
    """It plays N episodes at once, from what the official wrapper gives each agent.

    An agent uses only its part of observations and masks, and counts steps and busy steps.
    """

    def __init__(self, rules: Rules | None = None) -> None:
        self._rules = rules or Rules()

    def reset(self, masks: Bits) -> None:
        """Begin N episodes. masks: bool `[N, 570]`."""
        self.belief = Belief(masks)
        self._busy = np.zeros((len(masks), len(scenario4.AGENTS)), np.int64)

    def act(self, observations: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return actions `[N, 5]`. observations: `[N, 578]`, the five one after the other."""
        self.belief.update(observations)
        urgency = self._urgency()
        actions = np.tile(np.array(scenario4.SLEEP_ACTIONS), (len(urgency), 1))
        for agent, zones in enumerate(_ZONES_OF):
            score = urgency[:, zones].reshape(len(urgency), -1)
            chosen = score.argmax(1)
            wanted = np.take_along_axis(score, chosen[:, None], 1)[:, 0]
            wanted[self._busy[:, agent] > 0] = 0
            self._act_on(actions, agent, chosen, wanted)
        return actions

    def _act_on(
        self,
        actions: NDArray[np.int64],
        agent: int,
        chosen: NDArray[np.int64],
        wanted: NDArray[np.int64],
    ) -> None:
        self._busy[:, agent] = np.maximum(self._busy[:, agent] - 1, 0)
        for kind, is_wanted, note in (
            ("Restore", wanted > _REMOVE, self.belief.restore),
            ("Remove", wanted == _REMOVE, self.belief.remove),
        ):
            actions[is_wanted, agent] = scenario4.FIRST_OF_KIND[kind][agent] + chosen[is_wanted]
            self._busy[is_wanted, agent] = scenario4.DURATIONS[kind] - 1
            for i, zone in enumerate(_ZONES_OF[agent]):
                episodes = np.flatnonzero(is_wanted & (chosen // scenario4.HOSTS_OF_A_ZONE == i))
                note(episodes, zone, chosen[episodes] % scenario4.HOSTS_OF_A_ZONE)

    def _urgency(self) -> NDArray[np.int64]:
        """Return `[N, 7, 16]`: what is most urgent on each host, 0 for nothing."""
        belief, rules, step = self.belief, self._rules, self.belief.step - 1
        if step >= scenario4.COUNTED_STEPS - rules.last:
            return np.zeros(belief.exists.shape, np.int64)
        surely = belief.exploited.copy()
        waited = np.where(belief.first_activity == NEVER, 0, step - belief.first_activity)
        is_ripe = (waited > 0) & ((waited >= rules.patience) | (belief.n_possible <= rules.few))
        for zone, phase in scenario4.DECISIVE_PHASES:
            if _PHASES[phase] - rules.lead <= step < _PHASES[phase + 1]:
                is_ripe[:, zone] |= waited[:, zone] > 0
                if rules.restores_doubtful:
                    surely[:, zone] |= belief.ever_doubtful[:, zone]
        urgency = np.where(belief.doubtful & rules.removes_doubtful, _REMOVE, 0)
        urgency[belief.sources & rules.restores_sources] = _SOURCE
        urgency[belief.may_be_first & is_ripe[:, :, None]] = _FOOTHOLD
        urgency[surely] = _EXPLOITED
        return urgency * belief.exists


_REMOVE, _SOURCE, _FOOTHOLD, _EXPLOITED = 1, 2, 3, 4
_PHASES = (*scenario4.PHASE_STARTS, scenario4.MAX_STEPS)
_ZONES_OF = [
    [zone for zone, (owner, _) in enumerate(scenario4.OWN_ZONES) if owner == agent]
    for agent in range(len(scenario4.AGENTS))
]


class RuleTeam:
    """The team of rules behind `scripted.ScriptedTeam`: one episode at a time."""

    def __init__(self, rules: Rules | None = None) -> None:
        self._team = BatchedRuleTeam(rules)

    def reset(self, masks: Sequence[Bits], seed: int) -> None:
        self._team.reset(np.concatenate(masks)[None])

    def act(self, observations: Sequence[NDArray[np.int64]]) -> tuple[list[int], None]:
        actions = self._team.act(np.concatenate(observations)[None])
        return [int(action) for action in actions[0]], None

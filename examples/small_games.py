"""Two-player zero-sum games whose equilibria are known, in PettingZoo's parallel interface.

python -m workflow_rl train-duel --env examples.small_games:Kuhn --total-episodes 3000
"""

import numpy as np
from gymnasium.spaces import Box, Discrete

DEALS = [(a, b) for a in range(3) for b in range(3) if a != b]


class TwoPlayers:
    """What both games share: each player sees `n_seen` numbers and chooses among `n_actions`."""

    possible_agents = ("first", "second")

    def observation_space(self, agent):
        return Box(0, 1, (self.n_seen,), np.float32)

    def action_space(self, agent):
        return Discrete(self.n_actions)

    def over(self, payoff):
        """The answer to the last step. payoff: what the second player pays to the first."""
        self.agents = []
        rewards = dict(zip(self.possible_agents, (payoff, -payoff), strict=True))
        ends, goes_on = (dict.fromkeys(self.possible_agents, flag) for flag in (True, False))
        return self.seen(), rewards, ends, goes_on, {agent: {} for agent in self.possible_agents}


class Matrix(TwoPlayers):
    """Both choose once, at the same time. The default is rock, paper, scissors, in which whoever
    wins with rock wins twice: the equilibrium is 1/4, 1/2, 1/4."""

    def __init__(self, payoffs=((0, -1, 2), (1, 0, -1), (-2, 1, 0))):
        self.payoffs = payoffs
        self.n_seen, self.n_actions = 1, len(payoffs)

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        return self.seen(), {agent: {} for agent in self.agents}

    def step(self, actions):
        return self.over(float(self.payoffs[actions["first"]][actions["second"]]))

    def seen(self):
        return {agent: np.ones(1, np.float32) for agent in self.possible_agents}


class Kuhn(TwoPlayers):
    """Kuhn poker: three cards, one for each player, an ante of 1, and one bet of 1. Action 1 bets
    or calls; action 0 checks or folds. The first player loses 1/18 a game in equilibrium."""

    n_seen, n_actions = 5, 2

    def reset(self, seed=None, options=None):
        self.cards = DEALS[np.random.default_rng(seed).integers(len(DEALS))]
        self.agents, self.history = list(self.possible_agents), ""
        return self.seen(), self.infos()

    def step(self, actions):
        (action,) = actions.values()
        self.history += str(action)
        payoff = payoff_of(self.history, self.cards)
        if payoff is not None:
            return self.over(float(payoff))
        nothing, goes_on = dict.fromkeys(self.agents, 0.0), dict.fromkeys(self.agents, False)
        return self.seen(), nothing, goes_on, goes_on, self.infos()

    def infos(self):
        """The players act in turn: whoever waits is busy."""
        turn = self.possible_agents[len(self.history) % 2]
        return {agent: {"busy_steps": int(agent != turn)} for agent in self.agents}

    def seen(self):
        said = [self.history[:1] == "0", "1" in self.history]
        return {
            agent: np.array([*np.eye(3)[card], *said], np.float32)
            for agent, card in zip(self.possible_agents, self.cards, strict=True)
        }


def payoff_of(history, cards):
    """What the first player gets; None while the game goes on."""
    winner = 1 if cards[0] > cards[1] else -1
    return {"00": winner, "11": 2 * winner, "10": 1, "010": -1, "011": 2 * winner}.get(history)

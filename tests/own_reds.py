"""Red agents of a user's own, in a module that workers import."""

import random
import time
from typing import Any

from workflow_rl.cage2.attackers import BLine  # isort: skip

from csle_cyborg.agents.simple_agents.b_line import B_lineAgent
from csle_cyborg.shared.actions import Sleep


class RestlessRed(B_lineAgent):
    """Attacks like B_line, but sleeps now and then."""

    def get_action(self, observation: Any, action_space: Any) -> Any:
        if observation["success"] == True and random.random() < 0.3:  # noqa: E712
            return Sleep()
        return super().get_action(observation, action_space)


class DrawsElsewhere(B_lineAgent):
    """Its episodes are not determined by their seeds."""

    generator = random.Random()

    def get_action(self, observation: Any, action_space: Any) -> Any:
        if observation["success"] == True and self.generator.random() < 0.5:  # noqa: E712
            return Sleep()
        return super().get_action(observation, action_space)


class Careless(B_lineAgent):
    """Forgets to pass the first observation on."""

    steps = 0

    def get_action(self, observation: Any, action_space: Any) -> Any:
        self.steps += 1
        return Sleep() if self.steps == 1 else super().get_action(observation, action_space)


class Tires(BLine):
    """Raises an error after 35 steps of an episode, which is after those that try it."""

    def begin(self, random: random.Random) -> None:
        super().begin(random)
        self.steps = 0

    def act(self, seen: Any) -> str:
        self.steps += 1
        if self.steps > 35:
            raise LookupError("I am tired")
        return super().act(seen)


class Hangs(BLine):
    def act(self, seen: Any) -> str:
        while True:
            time.sleep(0.1)


class Restless(BLine):
    """RestlessRed for the compiled simulator."""

    def begin(self, random: random.Random) -> None:
        super().begin(random)
        self.random = random

    def act(self, seen: Any) -> str:
        return "Sleep" if seen.success and self.random.random() < 0.3 else super().act(seen)


class Reckless:
    """Draws one of all actions, also of those that are not possible."""

    def begin(self, random: random.Random) -> None:
        self.random = random

    def act(self, seen: Any) -> int:
        return self.random.randrange(44)

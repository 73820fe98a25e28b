"""How agents are scored where a guest does not say otherwise: by their mean return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.policies.numpy_policy import Actor
from agents.settings import Settings
from workflow_rl.environments.environment import Environment, guests
from workflow_rl.environments.guest import Scoring
from workflow_rl.runs.evaluation import Evaluation, evaluate_policy


def scoring_of(env_id: str) -> Scoring:
    """Return how agents of an environment are scored."""
    own = guests[env_id].scoring() if env_id in guests else None
    return own or ReturnScoring()


class ReturnScoring:
    """Scoring by mean return, without any settings: see `environments.guest.Scoring`."""

    unit = "episodes"
    settings = Settings

    def settings_for(self, args: Mapping[str, Any]) -> Settings:
        """Return the settings, of which there are none."""
        return Settings()

    def is_whole(self, settings: Settings) -> bool:
        """Return True: nothing can be left out."""
        return True

    def n_episodes(self, scores: Mapping[str, Any]) -> int:
        """Return the number of returns."""
        return len(scores["returns"])

    def score(
        self,
        actor: Actor | None,
        environment: Environment | None,
        settings: Settings,
        *,
        name: str,
        **played: Any,
    ) -> Evaluation:
        """Play the episodes."""
        assert actor is not None
        assert environment is not None
        return evaluate_policy(actor, environment, **played)

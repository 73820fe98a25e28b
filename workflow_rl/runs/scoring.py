"""How agents are scored where a guest does not say otherwise: by their mean return."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from agents.policies.numpy_policy import Actor
from agents.settings import Settings
from workflow_rl.environments.environment import Environment, guests
from workflow_rl.environments.guest import Scoring
from workflow_rl.runs.evaluation import Evaluation, evaluate_policy, record_video


def scoring_of(env_id: str) -> Scoring:
    """Return how agents of an environment are scored."""
    own = guests[env_id].scoring() if env_id in guests else None
    return own or ReturnScoring()


class ReturnSettings(Settings):
    """What can be chosen of an evaluation by returns. Making one raises ConfigError."""

    video: Path | None = Field(
        None,
        description="Folder in which to record the first episode as an mp4, if the environment "
        "draws pictures.",
    )


class ReturnScores(NamedTuple):
    """What an agent scored. video: a recording of the first episode, if there is one."""

    evaluation: Evaluation
    video: Path | None

    def lines(self, agent: str) -> list[str]:
        """Return the table of returns and lengths, and what was played."""
        return [*self.evaluation.lines(agent), *([f"video: {self.video}"] if self.video else [])]

    closing_lines = lines

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as evaluation.json keeps them."""
        return self.evaluation.to_dict()


class ReturnScoring:
    """Scoring by mean return: see `environments.guest.Scoring`."""

    unit = "episodes"
    settings = ReturnSettings

    def settings_for(self, args: Mapping[str, Any]) -> ReturnSettings:
        """Return the default settings."""
        return ReturnSettings()

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
        episodes: int,
        seed: int,
        n_workers: int | None,
        worker_timeout: float,
        quiet: bool,
    ) -> ReturnScores:
        """Play the episodes, and record the first one if the settings ask for a video."""
        assert isinstance(settings, ReturnSettings)
        assert actor is not None
        assert environment is not None
        video = None
        if settings.video is not None:
            video = record_video(actor, environment, settings.video, seed)
        evaluation = evaluate_policy(
            actor, environment, episodes, seed, n_workers, quiet, worker_timeout
        )
        return ReturnScores(evaluation, video)

"""Make a champion, the strongest agent: train a run, and choose the best of its last agents."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from workflow_rl.cage.selection import Score, tournament
from workflow_rl.errors import ConfigError
from workflow_rl.machine_facts import environment
from workflow_rl.output_files import sha256_of
from workflow_rl.reporting import learning_curve
from workflow_rl.runs import execute, export, folder, loop, read_checkpoint, resume
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.saved_agent import load_saved, save_with

AGENT_FILE = "champion.npz"


class Chosen(NamedTuple):
    """The choice of the best candidate. chosen: its file in the run. candidates: how many there
    were. episodes: how many each played against each attacker. Their mean is no score, because the
    chosen agent was partly lucky in these episodes."""

    chosen: str
    candidates: int
    episodes: int


@dataclass(frozen=True)
class Recipe:
    """The settings of a champion's run and of the choice of its best agent.

    run: fields of the run's config. n_candidates: how many of the last agents are compared.
    score: returns a candidate's mean. shares: for each round, the number by which the episodes of
    `choose` are divided. plays_with: arguments of the environment that differ from training's."""

    run: Mapping[str, Any]
    n_candidates: int
    score: Score
    shares: tuple[int, ...]
    plays_with: Mapping[str, Any] = field(default_factory=dict)

    def train(self, run_dir: Path, seed: int, total_episodes: int, quiet: bool) -> float:
        """Train or resume the run: see `train_recipe`. Return the seconds of the whole training."""
        given = {**self.run, "seed": seed, "total_episodes": total_episodes}
        seconds: float = train_recipe(TrainConfig("async", **given), run_dir, quiet)["wall_seconds"]
        return seconds

    def choose(self, run_dir: Path, episodes: int, quiet: bool) -> Chosen:
        """Write the best candidate of a finished run to best.safetensors and AGENT_FILE.

        Raises UserError."""
        candidates = last_agents(run_dir, self.n_candidates)
        rounds = [max(2, episodes // share) for share in self.shares]
        best = tournament(candidates, rounds, self.score, quiet)[0]
        agent = run_dir / "best.safetensors"
        save_with(best, agent, **self.plays_with)
        policy, plays_in = load_saved(agent)
        export.write_policy(policy.parameters, plays_in, run_dir / AGENT_FILE)
        return Chosen(str(best.relative_to(run_dir)), len(candidates), episodes)

    def card(
        self, run_dir: Path, command: str, chosen: Chosen, seconds: Mapping[str, float]
    ) -> dict[str, Any]:
        """Return how the agent was made, and its score from the run's evaluation.json."""
        evaluation = json.loads((run_dir / "evaluation.json").read_text())
        for cell in evaluation.get("cells", ()):
            del cell["returns"]
        plays_with = {"plays_with": self.plays_with["actions"]} if self.plays_with else {}
        return {
            "command": command,
            "config": folder.read_config(run_dir).to_dict(),
            **plays_with,
            "made_with": environment(),
            "seconds": dict(seconds),
            "selection": chosen._asdict(),
            "agent_sha256": sha256_of(run_dir / AGENT_FILE),
            "evaluation": evaluation,
        }


def train_recipe(config: TrainConfig, run_dir: Path, quiet: bool = True) -> dict[str, Any]:
    """Train in a new folder, or resume the run of this config there. Return the run's summary.

    Raises ConfigError if the folder holds another run, and UserError if the run is damaged. Also
    raises every error that can end a training."""
    resumed = None
    if (run_dir / "checkpoint.safetensors").exists():
        _require_same_run(config, run_dir)
        resumed = read_checkpoint.load_checkpoint(run_dir / "checkpoint.safetensors")
    elif run_dir.is_dir() and any(run_dir.iterdir()):
        raise ConfigError(
            "run_dir",
            f"{run_dir} holds no run of {config.env} that can go on: choose another folder, or "
            "give the --env of its run",
        )
    if resumed is None or not folder.is_finished(run_dir):
        execute.require_ready(config, begins=resumed is None)
        execute.execute(
            execute.Plan([config], [resumed]),
            run_dir,
            quiet=quiet,
            choose=False,
            watch=loop.stopped_by_signals,
            draw=learning_curve.plot_learning_curve,
        )
    return folder.read_summary(run_dir)


def _require_same_run(config: TrainConfig, run_dir: Path) -> None:
    before = folder.read_config(run_dir).flat()
    free = resume.free_on_resume(config.to_dict())
    for name, value in config.flat().items():
        if name not in free and before.get(name) != value:
            raise ConfigError(
                "run_dir",
                f"{run_dir} holds another run, whose {name} is {before.get(name)} and not {value}: "
                "choose another folder",
            )


def last_agents(run_dir: Path, most: int) -> list[Path]:
    """Return the last `most` checkpoints in kept/, and checkpoint.safetensors if its agent is not
    among them."""
    kept = sorted(run_dir.glob("kept/*.safetensors"))[-most:]
    last = run_dir / "checkpoint.safetensors"
    if run_dir / folder.kept_name(read_checkpoint.load_checkpoint(last).training.updates) in kept:
        return kept
    return [*kept, last]

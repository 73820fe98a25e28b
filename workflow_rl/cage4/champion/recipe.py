"""The recipe of CAGE Challenge 4's champion: how it is trained, chosen, and described on a card."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from workflow_rl.agents.policies.archive import read_archive
from workflow_rl.cage.tournament import tournament
from workflow_rl.cage4.agent import batched
from workflow_rl.cage4.agent.champion import (
    AGENT_FILE,
    TeamWeights,
    load_weights,
    save_weights,
)
from workflow_rl.cage4.champion.config import ChampionConfig
from workflow_rl.cage4.champion.episodes import play_seeds, totals_of
from workflow_rl.cage4.champion.learner import GROUPS, NetworkLearner, fresh_weights
from workflow_rl.cage4.scoring.leaderboard import PUBLISHED
from workflow_rl.collection.failures import StopRequested
from workflow_rl.environments.guest import Chosen
from workflow_rl.output_files import (
    NOT_OURS,
    make_folder,
    read_text,
    remove_unfinished,
    replacing,
    sha256_of,
    write_text,
)
from workflow_rl.runs.folder import RunDirError, begin_folder, locked
from workflow_rl.runs.loop import stopped_by_signals
from workflow_rl.runs.machine import environment
from workflow_rl.runs.progress import BAR, Progress

CONFIG_FILE, STATE_FILE, METRICS_FILE, KEPT = "config.json", "training.npz", "metrics.csv", "kept"
CARD_FILE = "card.json"
MOST_BYTES = 2**24
N_CANDIDATES, N_AVERAGED = 10, 5
CRITIC_FIRST = 3
"""Passes of the critics over the episodes of the rules, before PPO begins."""
FIRST_SEEDS = {"rules": 20_000_000, "training": 30_000_000, "selection": 5_000_000}
OF_A_RUN = 1_000_000
"""A seed of a run has so many seeds of episodes for itself."""
METRICS = (
    *("update", "episodes", "mean_return", "zone_explained_variance", "zone_divergence"),
    *("headquarters_explained_variance", "headquarters_divergence", "seconds"),
)


class Training:
    """A champion's training at some update."""

    def __init__(self, config: ChampionConfig) -> None:
        self.config = config
        self.rows: list[list[float]] = []
        with _drawing(config.seed, 0):
            draw = np.random.default_rng(config.seed)
            self.learners = [
                NetworkLearner(config, fresh_weights(draw), i) for i in range(len(GROUPS))
            ]

    @property
    def updates(self) -> int:
        """How many updates of PPO are done."""
        return len(self.rows)

    @property
    def seconds(self) -> float:
        """Seconds of training so far."""
        return self.rows[-1][-1] if self.rows else 0.0

    @property
    def weights(self) -> TeamWeights:
        zone, headquarters = (learner.weights for learner in self.learners)
        return zone, headquarters

    def copy_the_rules(self) -> None:
        """Learn to do as the rules do, and the critics what that is worth."""
        with _drawing(self.config.seed, 1):
            taught = play_seeds(self.weights, self._seeds("rules", 0), batched.TAUGHT)
            for learner in self.learners:
                learner.copy(taught)
                for _ in range(CRITIC_FIRST):
                    learner.advantages(taught)

    def update(self) -> None:
        """Play the episodes of an update, and learn from them."""
        start, done, config = time.perf_counter(), self.updates, self.config
        with _drawing(config.seed, 2 + done):
            played = play_seeds(self.weights, self._seeds("training", done), batched.SAMPLED)
            told = [learner.improve(played, 1 - done / config.updates) for learner in self.learners]
        row = [done + 1, (done + 1) * config.episodes_per_update, float(played.totals.mean())]
        self.rows.append([*row, *told[0], *told[1], self.seconds + time.perf_counter() - start])

    def _seeds(self, use: str, update: int) -> Sequence[int]:
        n = self.config.episodes_per_update
        first = FIRST_SEEDS[use] + OF_A_RUN * self.config.seed + update * n
        return range(first, first + n)

    def save(self, run_dir: Path) -> None:
        """Write all that the next update depends on, and the metrics."""
        arrays = {"rows": np.array(self.rows).reshape(-1, len(METRICS))}
        for i, learner in enumerate(self.learners):
            arrays |= {f"{i}/{name}": array for name, array in learner.state().items()}
        with replacing(run_dir / STATE_FILE, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([METRICS, *self.rows])
        write_text(run_dir / METRICS_FILE, text.getvalue())

    def restore(self, path: Path) -> None:
        """Go on from a file that `save` wrote. Raises RunDirError."""
        try:
            with np.load(io.BytesIO(read_archive(path)), allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            self.rows = [[int(row[0]), int(row[1]), *row[2:]] for row in arrays["rows"].tolist()]
            for i, learner in enumerate(self.learners):
                start = f"{i}/"
                learner.restore(
                    {n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)}
                )
        except Exception:  # A damaged file can raise anything.
            raise RunDirError(f"{path} is damaged: choose another folder") from None


class Stop:
    """Whether the user asked the training to end: see `stopped_by_signals`."""

    stop_signal: int | None = None


@contextmanager
def _drawing(seed: int, stage: int) -> Iterator[None]:
    """Seed all that is drawn in a stage of the training, so that it can be resumed between two."""
    number = int(np.random.SeedSequence([seed, stage]).generate_state(1)[0])
    batched.seed_draws(number)
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # Sums depend on the number of threads.
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(number)
            yield
    finally:
        torch.set_num_threads(before)


class Cage4Recipe:
    """See `environments.guest.ChampionRecipe`."""

    def train(
        self,
        run_dir: Path,
        seed: int,
        total_episodes: int,
        quiet: bool,
        **settings: Any,
    ) -> float:
        """Train in a new folder, or go on in a run's own. settings: more of ChampionConfig."""
        config = ChampionConfig(seed=seed, total_episodes=total_episodes, **settings)
        _begin(run_dir, config)
        stop = Stop()
        with locked(run_dir), stopped_by_signals(stop):
            _begin(run_dir, config)  # Another process may have begun in it meanwhile.
            remove_unfinished(run_dir)
            training = Training(config)
            if (run_dir / STATE_FILE).exists():
                training.restore(run_dir / STATE_FILE)
            else:
                training.copy_the_rules()
                training.save(run_dir)
            kept_every = max(1, config.updates // (2 * N_CANDIDATES))
            _kept(run_dir, "")  # Raises in time what is wrong with the folder.
            with _bar(training, quiet) as bar:
                while True:
                    if stop.stop_signal is not None:
                        raise StopRequested(stop.stop_signal)
                    if training.updates == config.updates:
                        break
                    training.update()
                    remaining = config.updates - training.updates
                    if remaining % kept_every == 0 and remaining // kept_every < N_CANDIDATES:
                        _write(_kept(run_dir, f"{training.updates:06}"), training.weights)
                    training.save(run_dir)
                    _show(bar, training)
        return training.seconds

    def choose(self, run_dir: Path, episodes: int, quiet: bool) -> Chosen:
        """Make the best candidate AGENT_FILE. Candidates are the kept weights, and their mean.

        All play the same episodes, on which nothing was learned: see `tournament`.
        """
        kept = sorted(run_dir.glob(f"{KEPT}/0*.npz"))
        last = [load_weights(path) for path in kept[-N_AVERAGED:]]
        if not last:
            raise RunDirError(f"{run_dir / KEPT} is empty: there is no agent to choose")
        _write(_kept(run_dir, "mean"), _mean(last))
        rounds = [max(2, n) for n in (episodes // 16, episodes // 4, episodes)]

        def mean_total(path: Path, n: int) -> float:
            first = FIRST_SEEDS["selection"]
            return float(totals_of(load_weights(path), range(first, first + n)).mean())

        ranked = tournament([*kept, _kept(run_dir, "mean")], rounds, mean_total, quiet)
        _write(run_dir / AGENT_FILE, load_weights(ranked[0]))
        return Chosen(str(ranked[0].relative_to(run_dir)), len(ranked), rounds[-1])

    def agent(self, run_dir: Path) -> Path:
        """Return the file of the chosen agent."""
        return run_dir / AGENT_FILE

    def card(
        self, run_dir: Path, command: str, chosen: Chosen, seconds: Mapping[str, float]
    ) -> dict[str, Any]:
        """Return how the agent was made, and what it scores."""
        return {
            "command": command,
            "config": json.loads((run_dir / CONFIG_FILE).read_text()),
            "made_with": environment(),
            "seconds": dict(seconds),
            "selection": chosen._asdict(),
            "agent_sha256": sha256_of(run_dir / AGENT_FILE, MOST_BYTES),
            "evaluation": json.loads((run_dir / "evaluation.json").read_text()),
            "published": {score.name: score.mean for score in PUBLISHED},
        }


def _begin(run_dir: Path, config: ChampionConfig) -> None:
    """Make the folder, or check that it holds a run of this config. Raises RunDirError."""
    text = json.dumps(config.to_dict(), indent=2) + "\n"
    path = run_dir / CONFIG_FILE
    if not path.exists():
        begin_folder(run_dir, CONFIG_FILE, text)
        return
    names = {entry.name for entry in run_dir.iterdir()}
    if STATE_FILE not in names and names & {METRICS_FILE, KEPT, AGENT_FILE, CARD_FILE}:
        raise RunDirError(
            f"{run_dir} holds a run that has no {STATE_FILE} to go on from: choose another folder"
        )
    try:
        before = json.loads(read_text(path, MOST_BYTES))
        differences = [name for name, value in config.to_dict().items() if before[name] != value]
    except NOT_OURS:
        raise RunDirError(f"{run_dir} holds another run: choose another folder") from None
    for name in differences:
        raise RunDirError(
            f"{run_dir} holds another run, whose {name} is {before[name]} and not "
            f"{config.to_dict()[name]}: choose another folder"
        )


def _bar(training: Training, quiet: bool) -> Progress:
    n = training.config.episodes_per_update
    return Progress(
        quiet,
        total=training.config.updates * n,
        initial=training.updates * n,
        bar_format=BAR,
        unit="ep",
        dynamic_ncols=True,
        smoothing=0,
    )


def _show(bar: Progress, training: Training) -> None:
    recent = [row[2] for row in training.rows[-10:]]
    n = len(recent) * training.config.episodes_per_update
    done = training.updates * training.config.episodes_per_update
    bar.show(done, f"mean return {np.mean(recent):.1f} of the last {n}")


def _kept(run_dir: Path, name: str) -> Path:
    try:
        make_folder(run_dir / KEPT)
    except OSError as error:
        raise RunDirError(f"{run_dir / KEPT} cannot be used: {error.strerror}") from None
    return run_dir / KEPT / f"{name}.npz"


def _write(path: Path, weights: TeamWeights) -> None:
    """Replace the file in one step."""
    with replacing(path, "wb") as file:
        save_weights(file, weights)


def _mean(weights: Sequence[TeamWeights]) -> TeamWeights:
    """Return the mean of the networks' arrays."""
    zone, headquarters = (
        tuple(_mean_array(arrays) for arrays in zip(*networks, strict=True))
        for networks in zip(*weights, strict=True)
    )
    return zone, headquarters


def _mean_array(arrays: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    return np.stack(arrays).mean(axis=0, dtype=np.float64).astype(np.float32)

"""What a training command prints at its end, to the number, and its verdict."""

import functools
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workflow_rl.cage2.red.roster import REDS
from workflow_rl.commands.train_report import print_report
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.execute import Outcome, best_of
from workflow_rl.runs.metrics import summarise
from workflow_rl.runs.return_curves import returns_of_known_agents
from workflow_rl.runs.several_policies import PopulationRecord
from workflow_rl.runs.training_state import TrainingState

SECONDS = {
    **{"wall_seconds": 10.0, "collect_seconds": 4.0, "update_seconds": 5.0},
    **{"learner_idle_seconds": 4.0, "busy_seconds": 6.0, "worker_seconds": 20.0},
    "worker_seconds_collecting": 8.0,
}


def report(
    capsys: pytest.CaptureFixture[str],
    config: dict[str, Any],
    state: dict[str, Any],
    stopped: str | None = None,
) -> list[str]:
    """The lines about a run of two updates."""
    learner: Any = SimpleNamespace(
        config=TrainConfig("async", env="CartPole-v1", **({"total_steps": 80} | config)),
        state=TrainingState(**({"updates": 2, "episodes": 8, "env_steps": 80} | SECONDS | state)),
        copied=None,
        stopped=stopped,
    )
    print_report(Outcome(Path("run"), [learner], [{"weights": "ab" * 32}], 0, None, None), False)
    return capsys.readouterr().out.splitlines()


COLLECTING = ["4.0", "40%", "2.0", "20", "75.0%"]
WHOLE = ["whole run", "10.0", "100%", "0.8", "8", "30.0%"]


@pytest.mark.parametrize(
    ("config", "state", "rows"),
    [
        (
            {},
            {},
            [
                ["collecting (the learner waits)", *COLLECTING],
                ["learning (the workers wait)", "5.0", "50%", "", "", ""],
                ["saving, evaluating", "1.0", "10%", "", "", ""],
            ],
        ),
        (
            {"async_rl": True},
            {"held_seconds": 0.5, "learner_idle_seconds": 6.0},
            [
                ["collecting", *COLLECTING],
                ["learning meanwhile", "5.0", "50%", "", "", ""],
                ["the learner waits", "6.0", "60%", "", "", ""],
                ["collecting waits", "0.5", "5%", "", "", ""],
                ["saving, evaluating", "0.0", "0%", "", "", ""],
            ],
        ),
    ],
)
def test_where_the_time_went(config, state, rows, capsys):
    lines = report(capsys, config, state)
    cells = [[one.strip() for one in line.split("│")[1:-1]] for line in lines if "│" in line]
    headings = ["", "seconds", "share", "episodes/s", "env steps/s", "worker utilisation"]
    assert cells == [headings, *rows, WHOLE]


@pytest.mark.parametrize(
    ("config", "state", "stopped", "words"),
    [
        ({}, {}, None, " --total-steps 160"),
        ({"total_steps": 81}, {}, None, ""),
        ({"total_steps": None, "total_episodes": 8}, {}, None, " --total-episodes 16"),
        ({"total_steps": 99, "eval_every": 1, "patience": 3}, {}, "enough", " --patience 6"),
        *(
            ({"total_steps": 99, "stop_at_return": reached}, {"best_score": best}, "enough", words)
            for reached, best, words in [
                *((5.0, 7.0, "=7.7"), (5.0, 5.0, "=5.5"), (0.05, 0.05, "=0.15")),
                *((-20.0, -20.0, "=-18"), (5.0, 4.9, None)),
            ]
        ),
    ],
)
def test_how_a_run_is_trained_on(config, state, stopped, words, capsys):
    words = "" if words is None else words.replace("=", " --stop-at-return=")
    (line,) = [one for one in report(capsys, config, state, stopped) if "train on:" in one]
    assert line.endswith(f"train-async --resume run{words}")


@pytest.mark.parametrize(
    ("config", "state", "told"),
    [
        ({}, {}, ""),
        (
            {"eval_every": 2},
            {"best_score": 7.0, "best_update": 2},
            ", of update 2, whose evaluation has a mean return of 7.00",
        ),
        ({"eval_every": 2}, {}, ""),
        (
            {"eval_every": 3},
            {},
            ", the last: the run ended before the first evaluation, after 3 updates (--eval-every)",
        ),
    ],
)
def test_which_agent_is_the_best_and_why(config, state, told, capsys):
    lines = report(capsys, config, state)
    assert f"best agent:      run/best.safetensors{told}" in lines
    assert (
        f"last agent:      run/checkpoint.safetensors, with weights of SHA-256 {'ab' * 8}" in lines
    )


def test_steps_beyond_the_end_and_workers_that_failed_are_told(capsys):
    assert "8 episodes, updates: 2; no episode has ended" in report(capsys, {}, {})
    lines = report(capsys, {}, {"env_steps": 1081, "workers_restarted": 3})
    whole = "8 episodes of 1,081 steps (the last update is whole), updates: 2; no episode has ended"
    assert whole in lines
    assert "workers restarted: 3" in lines


@functools.cache
def champions_mean(red_agent: str) -> float:
    return returns_of_known_agents(TrainConfig("async", env_args={"red_agent": red_agent}))[
        "champion"
    ]


def champion_state(red_agent: str, shift: float = 0.0) -> TrainingState:
    """A run's last 300 episodes, played as well as the champion plays, or better by `shift`.

    More of them are against the roster's later attackers than is drawn on average.
    """
    kinds = REDS.read(red_agent).variants
    state = TrainingState(updates=1, episodes=3000, wall_seconds=9.0, collect_seconds=9.0)
    state.env_steps, state.episode_length = 300_000, 100.0
    state.busy_seconds = state.worker_seconds = state.worker_seconds_collecting = 9.0
    for n in range(300):
        kind = kinds[int((n / 300) ** 0.5 * len(kinds))]
        noise = 0.0 if kind == "SleepAgent" else 3.5 * (-1) ** n
        state.recent_returns.append(champions_mean(kind) + noise + shift)
        state.recent_variants.append(kind)
    return state


def reported(
    path: Path, config: TrainConfig, states: Sequence[TrainingState], capsys: Any
) -> dict[str, str]:
    summaries = [
        {**summarise(config, state), "weights": "0" * 64, "worker_utilisation_run": 1.0}
        for state in states
    ]
    about = {"config": config, "copied": None, "stopped": None}
    learners: Any = [SimpleNamespace(state=state, **about) for state in states]
    record = PopulationRecord([config.to_dict()] * len(states)) if len(states) > 1 else None
    outcome = Outcome(path, learners, summaries, best_of(summaries), None, record)
    print_report(outcome, is_scored_next=False)
    lines = (line.partition(":") for line in capsys.readouterr().out.splitlines())
    return {heading: text.strip() for heading, _, text in lines}


def verdict_of(*run: Any) -> str:
    """The verdict that the command prints; empty if it prints none."""
    return reported(*run).get("verdict", "")


@pytest.mark.parametrize("red_agent", ["mixed", "attackers", "B_lineAgent"])
@pytest.mark.parametrize(
    ("shift", "words"),
    [
        (0.0, "about as good as champion"),
        (2.0, "better than every known agent"),
        (-2.0, "not as good as champion"),
    ],
)
def test_an_agent_is_as_good_as_the_champion_better_or_worse(
    red_agent, shift, words, tmp_path, capsys
):
    """Whatever kinds of attackers its last episodes happened to draw."""
    config = TrainConfig("async", env_args={"red_agent": red_agent})
    assert words in verdict_of(tmp_path, config, [champion_state(red_agent, shift)], capsys)


@pytest.mark.parametrize(("n", "words"), [(1, "better than every"), (16, "about as good as champ")])
def test_of_the_best_of_several_policies_more_is_asked(n, words, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("workflow_rl.studies.policies_figure.draw_folder", lambda path: path)
    config = TrainConfig("async", env_args={"red_agent": "B_lineAgent"})
    states = [champion_state("B_lineAgent", 0.5)] * n
    assert words in verdict_of(tmp_path, config, states, capsys)


def test_there_is_no_verdict_from_one_episode(tmp_path, capsys):
    state = champion_state("B_lineAgent")
    for _ in range(299):
        state.recent_returns.pop()
        state.recent_variants.pop()
    config = TrainConfig("async", env_args={"red_agent": "B_lineAgent"})
    assert not verdict_of(tmp_path, config, [state], capsys)


@pytest.mark.parametrize(
    ("env", "args"),
    [
        ("workflow_rl/CAGE4-v0", {}),
        ("workflow_rl/OrderedCAGE2-v0", {"obedience": "penalty", "penalty": 1.0}),
    ],
    ids=["another number of rewards", "prices of fixes among the rewards"],
)
def test_returns_are_not_compared_with_scores_of_another_kind(env, args, tmp_path, capsys):
    config = TrainConfig("async", env=env, env_args=args)
    state = champion_state("B_lineAgent")
    lines = reported(tmp_path, config, [state], capsys)
    assert "verdict" not in lines
    assert lines["is it good"].endswith(f"workflow-rl evaluate {tmp_path}")

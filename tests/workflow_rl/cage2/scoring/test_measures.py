"""An evaluation measures episodes beside the return: in a table, and in its file."""

import json

import numpy as np

from tests.workflow_rl.cage2.scoring.evaluations import run
from workflow_rl.cage2.agent.scripted import scripted_blue
from workflow_rl.cage2.guest import Cage2Guest
from workflow_rl.cage2.scoring.protocol import evaluate_blue
from workflow_rl.cage2.scoring.scores import ProtocolScores
from workflow_rl.cage2.scoring.scoring import Cage2Scoring
from workflow_rl.evaluation.measures import Ratio, Times, readings_in

LENGTH = 40


def evaluated(n_workers: int = 1, simulator: str = "compiled") -> ProtocolScores:
    reds = "B_lineAgent", "SleepAgent"
    options = {"horizons": (LENGTH,), "red_agents": reds, "n_workers": n_workers}
    return evaluate_blue(scripted_blue("react-restore"), 6, simulator=simulator, **options)


def test_an_evaluation_measures_its_episodes() -> None:
    scores = evaluated()
    plain = json.loads(json.dumps(scores.to_dict()))
    assert list(plain["measures"]) == list(Cage2Scoring().returns(plain))
    read = readings_in(plain)
    assert list(read) == [measure.name for measure in Cage2Guest().measures({})]
    assert len(read) <= 12
    for cell, of_cell in zip(scores.cells, range(2), strict=True):
        for number, trajectory in enumerate(cell.trajectories):
            costs = trajectory.costs
            assert costs is not None
            one = {name: of_task[of_cell][number] for name, of_task in read.items()}
            assert one["hosts clean"] == Ratio(costs[:, 0].sum(), 12 * LENGTH)
            assert one["hosts at user level"] == Ratio(costs[:, 1].sum(), 12 * LENGTH)
            assert one["hosts at root level"] == Ratio(costs[:, 2].sum(), 12 * LENGTH)
            assert one["Impacts"] == Ratio(costs[:, 3].sum())
            n_recoveries = costs[:, 4].sum() + costs[:, 5].sum()
            assert one["recoveries"] == Ratio(n_recoveries)
            assert one["healthy recoveries"] == Ratio(costs[:, 6].sum())
            assert one["precision of recoveries"] == Ratio(costs[:, 7].sum(), n_recoveries)
            assert one["analyses"] == Ratio(costs[:, 8].sum())
            assert one["decoys"] == Ratio(costs[:, 9].sum())
            assert one["action cost"] == Ratio(costs[:, 4].sum())
            times = one["time to recover"]
            # Each step with a session belongs to one time; the last step counts in none.
            held = costs[:, 12:] > 0
            assert sum(times.over) + sum(times.cut) == held.sum() - held[-1].sum()
            assert len(times.cut) == held[-1].sum()
    sums = scores.costs["clean_hosts"]
    assert sums == [ratio.value for of_cell in read["hosts clean"] for ratio in of_cell]
    asleep = {name: of_task[1] for name, of_task in read.items()}
    assert asleep["time to first counter-action"] == [Times()] * 6
    (held, never_held) = (of["clean_hosts"] for of in plain["by_step"].values())
    assert never_held == {part: [12.0] * LENGTH for part in ("mean", "low", "high")}
    assert held["mean"][0] <= 12
    assert min(held["low"]) < 12
    assert asleep["hosts clean"] == [Ratio(480, 480)] * 6


def test_it_keeps_the_shares_of_each_host() -> None:
    scores = evaluated()
    plain = scores.to_dict()
    costs = [of.costs for cell in scores.cells for of in cell.trajectories]
    steps = np.concatenate([of_episode for of_episode in costs if of_episode is not None])
    assert len(plain["hosts"]) == 12
    assert "User0" not in plain["hosts"]
    for kind, column in (("user", 1), ("root", 2)):
        by_host = sum(shares[kind] for shares in plain["hosts"].values())
        assert abs(by_host - steps[:, column].mean()) < 1e-4


def test_workers_and_cyborg_measure_the_same() -> None:
    plain = evaluated().to_dict()
    for other in (evaluated(n_workers=2), evaluated(simulator="cyborg")):
        found = other.to_dict()
        assert [found[name] for name in ("measures", "hosts")] == [
            plain["measures"],
            plain["hosts"],
        ]


def test_evaluate_shows_a_table_of_measures(tmp_path) -> None:
    path = tmp_path / "scores.json"
    options = ["--episodes", "3", "--max-steps", "20", "--check", "0", "--json", path]
    shown = run("--agent", "react-remove", *options)
    for measure in Cage2Guest().measures({}):
        assert any(line.startswith(f"│ {measure.name} ") for line in shown.splitlines())
    kept = json.loads(path.read_text())
    without = {name: of for name, of in kept.items() if name not in ("measures", "hosts")}
    # Each cell has three episodes, and most of the file is said once.
    assert len(path.read_text()) < 3 * len(json.dumps(without, indent=2))

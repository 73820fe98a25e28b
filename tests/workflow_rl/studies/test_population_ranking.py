import math
from collections import deque

from tests.any_envs import SeedEnv
from tests.tiny_runs import config_of
from tests.workflow_rl.studies.population_runs import EXCHANGE, N_POLICIES, configs_of, run
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.runs.folder import read_metrics, runs_in
from workflow_rl.runs.learner import Learner
from workflow_rl.runs.several_policies import read_population
from workflow_rl.runs.training_state import TrainingState
from workflow_rl.studies.population import Population

BY_EVALUATION = EXCHANGE.changed(rank_by="evaluation")


def test_members_may_be_ranked_by_evaluations(tmp_path, monkeypatch):
    scores = iter([0, 1, 2, math.nan, 4, 5, 6, 7])
    monkeypatch.setattr(Learner, "evaluate", lambda *arguments: float(next(scores)))
    run(tmp_path / "run", configs_of(N_POLICIES, exchange=BY_EVALUATION), exchange=BY_EVALUATION)
    meetings = read_population(tmp_path / "run").meetings
    assert [meeting.scores for meeting in meetings] == [[0, 1, 2, -math.inf], [4, 5, 6, 7]]


def test_members_are_ranked_on_the_same_episodes(tmp_path):
    """Whose returns follow from their seeds alone, so that nobody is better than another."""
    env = {"env": "seeds", "env_args": {}, "make_env": SeedEnv}
    configs = configs_of(3, BY_EVALUATION, **env, eval_every=1, eval_episodes=2)
    run(tmp_path / "run", configs, exchange=BY_EVALUATION)
    meetings = read_population(tmp_path / "run").meetings
    assert [len(set(meeting.scores)) for meeting in meetings] == [1, 1]
    assert [meeting.copies for meeting in meetings] == [[], []]
    # Nor are they those that choose each member's best.
    chosen_on = {read_metrics(one)[0]["eval_return_mean"] for one in runs_in(tmp_path / "run")}
    assert len(chosen_on) == 3
    assert not chosen_on & set(meetings[0].scores)


def test_members_are_ranked_by_their_last_100_episodes(population):
    class Stub:
        def __init__(self, returns: list[float]) -> None:
            self.state = TrainingState(recent_returns=deque(returns))
            self.config = config_of()

    ranked = Population(population, read_population(population), [])
    assert ranked.score(Stub([-50.0] * 200 + [-1.0] * 100)) == -1.0
    assert ranked.score(Stub([-3.0, -5.0])) == -4.0
    assert ranked.score(Stub([])) == -math.inf
    lucky = Stub([-20.0] * 28 + [-10.0] * 29 + [0.0] * 43)
    for red_agent, n in zip(RED_AGENTS, (28, 29, 43), strict=True):
        lucky.state.recent_variants.extend([red_agent] * n)
    assert ranked.score(lucky) == -10, "not because harmless attackers were drawn more often"
    crashing = Stub([-1.0] * 100)
    crashing.state.episodes, crashing.state.skipped_episodes = 150, [49, 120]
    assert ranked.score(crashing) == -1.0, "one in a hundred"
    crashing.state.skipped_episodes = [119, 120]
    assert ranked.score(crashing) == -math.inf

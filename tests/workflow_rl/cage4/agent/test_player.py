import numpy as np
import pytest

from tests.cli import output_of
from workflow_rl import load_agent
from workflow_rl.cage4 import parallel_env
from workflow_rl.cage4.agent.scripted import make_scripted_team
from workflow_rl.cage4.compiled.simulator import CompiledSimulator
from workflow_rl.cage4.scenario.scenario4 import ENV_ID, RED_AGENTS
from workflow_rl.errors import ConfigError, ObservationError


@pytest.mark.parametrize(
    ("name", "observation"),
    [("champion", "raw"), ("rules", "raw"), ("random", "flat"), ("restore-when-seen", "flat")],
)
def test_a_team_of_this_name_plays_as_it_is_scored(name: str, observation: str) -> None:
    player, team = load_agent(name, env=ENV_ID), make_scripted_team(name)
    assert team.reads_raw == (observation == "raw")
    env = parallel_env(max_steps=60, observation=observation)
    simulator = CompiledSimulator(RED_AGENTS[0], 60)
    for seed in (3, 4):
        shown, infos = env.reset(seed=seed)
        vectors = simulator.reset(seed)
        player.reset(seed)
        team.reset(simulator.masks, seed)
        while env.agents:
            actions, _ = team.act_in(simulator, vectors)
            assert player.act(shown, infos) == dict(zip(env.agents, actions, strict=True))
            vectors = simulator.step(actions).observations
            shown, *_, infos = env.step(dict(zip(env.agents, actions, strict=True)))


def test_what_a_team_lacks_is_named() -> None:
    (raw, raw_infos), (flat, infos) = (
        parallel_env(max_steps=5, observation=name).reset(seed=0) for name in ("raw", "flat")
    )
    long = {**flat, "blue_agent_3": np.zeros(95, np.int64)}
    rules, restoring = (load_agent(name, env=ENV_ID) for name in ("rules", "restore-when-seen"))
    for team, shown, told, words in (
        (rules, raw, {}, "'blue_agent_0' is missing"),
        (rules, flat, infos, r'reads raw observations: .*"raw"'),
        (restoring, long, infos, r"blue_agent_3's observation .*\(95,\)"),
        (restoring, raw, raw_infos, "blue_agent_0's observation"),
    ):
        with pytest.raises(ObservationError, match=words):
            team.act(shown, told)
    # What was refused has not begun the episode.
    assert len(rules.act(raw, raw_infos)) == 5
    del raw["blue_agent_3"]
    with pytest.raises(ObservationError, match="'blue_agent_3' is missing"):
        rules.act(raw, raw_infos)
    with pytest.raises(ConfigError, match="'CAGE4': choose one of"):
        load_agent("rules", env="CAGE4")


def test_an_unknown_agent_is_told_the_known_names() -> None:
    message = " ".join(output_of("evaluate", "rule", "--env", ENV_ID, code=2).split())
    assert "nor an agent of this name on workflow_rl/CAGE4-v0: choose one of champion, " in message
    assert "Did you mean rules or robust-rules?" in message

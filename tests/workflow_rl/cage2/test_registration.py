"""The environment as others' code finds it: by its id, through Gymnasium alone."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.env.vector_env import CompiledVectorEnv
from workflow_rl.cage2.scenario2 import ENV_ID, RED_AGENTS
from workflow_rl.environments.source import register_envs

REPOSITORY = Path(__file__).parents[3]


def run(program: str, *words: object) -> None:
    command = [sys.executable, "-c", program, *map(str, words)]
    subprocess.run(command, cwd=REPOSITORY, check=True, timeout=120)


def test_importing_the_package_registers_and_loads_no_simulator():
    run("""
import sys, gymnasium
assert "workflow_rl/CAGE2-v0" not in gymnasium.registry
import workflow_rl
assert "workflow_rl/CAGE2-v0" in gymnasium.registry
heavy = {"torch", "click", "pydantic", "numba", "csle_cyborg", "workflow_rl.cage2.env.cage2_env"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
""")


PLAYED = """
import sys
from pathlib import Path
import cloudpickle, torch
from tests.random_actor import RandomActor
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.messages import Command
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.source import make_environment

class Telling(RandomActor):
    def act(self, obs, envs=(0,)):
        self.file.write_text(" ".join(sys.modules))
        return super().act(obs, envs)

cage2 = {"max_steps": 3, "simulator": "cyborg"}
for number, (env_id, args) in enumerate([
    ("CartPole-v1", {}), ("examples.own_simulator:Corridors", {}), ("workflow_rl/CAGE2-v0", cage2),
]):
    environment = make_environment(env_id, args)
    actor = Telling(environment)
    actor.file = Path(sys.argv[1], str(number))
    with LocalPool(environment.make_envs, 1, 2, preload=environment.preload) as pool:
        pool.send(0, Command.LOAD_ACTOR, cloudpickle.dumps(actor))
        pool.send(0, Command.PLAY, [episode_spec(0, 0, environment.variants)])
        assert pool.receive(0).result[0].length
"""


def test_a_worker_that_has_played_has_loaded_neither_torch_nor_pydantic_nor_click(tmp_path):
    run(PLAYED, tmp_path)
    for file in (tmp_path / str(number) for number in range(3)):
        loaded = set(file.read_text().split())
        assert "workflow_rl.environments.environment" in loaded
        assert {"torch", "click", "pydantic", "numba"} & loaded == set()


@pytest.mark.parametrize("module", ["workflow_rl", "workflow_rl.cage2.guest"])
def test_an_id_with_the_module_needs_no_import(module):
    run(f"""
import gymnasium
env = gymnasium.make("{module}:workflow_rl/CAGE2-v0", max_steps=3)
env.reset(seed=0)
assert [env.step(0)[3] for _ in range(3)] == [False, False, True]
""")


@pytest.mark.filterwarnings("error")
def test_registering_twice_changes_nothing():
    spec = gymnasium.spec(ENV_ID)
    register_envs()
    assert gymnasium.spec(ENV_ID) is spec
    assert (spec.namespace, spec.name, spec.version) == ("workflow_rl", "CAGE2", 0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("simulator", ["cyborg", "published", "compiled"])
def test_make_passes_the_arguments_on_and_gymnasium_finds_no_fault(simulator):
    env = gymnasium.make(ENV_ID, red_agent="RedMeanderAgent", max_steps=12, simulator=simulator)
    # With what `make` puts around it, which checks every call as well.
    env.reset(seed=1)
    steps = [env.step(action) for action in range(12)]
    check_env(env.unwrapped)
    assert isinstance(env.unwrapped, Cage2Env)
    assert [step[3] for step in steps] == [False] * 11 + [True]
    assert RED_AGENTS[steps[0][4]["red_agent"]] == "RedMeanderAgent"


def test_an_env_is_made_again_from_its_spec():
    env = gymnasium.make(ENV_ID, red_agent="SleepAgent", max_steps=2)
    assert json.loads(env.spec.to_json())["kwargs"] == {"red_agent": "SleepAgent", "max_steps": 2}
    again = gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.unwrapped.max_steps == 2


# Of forking with threads; it is Gymnasium that forks.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        (None, CompiledVectorEnv),
        ("vector_entry_point", CompiledVectorEnv),
        ("sync", SyncVectorEnv),
        ("async", AsyncVectorEnv),
    ],
)
def test_every_vectorization_plays_the_same(mode, kind):
    """With the same arguments, `simulator` included."""
    arguments = {"red_agent": "RedMeanderAgent", "max_steps": 9, "simulator": "compiled"}
    reference = CompiledVectorEnv(2, **arguments)
    envs = gymnasium.make_vec(ENV_ID, num_envs=2, vectorization_mode=mode, **arguments)
    with contextlib.closing(envs):
        assert type(envs.unwrapped) is kind
        assert data_equivalence(envs.reset(seed=8), reference.reset(seed=8), exact=True)
        reference.action_space.seed(8)
        for _ in range(25):
            actions = reference.action_space.sample()
            steps = envs.step(actions), reference.step(actions)
            assert data_equivalence(*steps, exact=True)


def test_the_vector_env_says_how_to_get_another_simulator():
    with pytest.raises(ValueError, match=r"simulator='cyborg'.*vectorization_mode=.sync."):
        gymnasium.make_vec(ENV_ID, num_envs=2, simulator="cyborg")
    envs = gymnasium.make_vec(ENV_ID, num_envs=2, simulator="cyborg", vectorization_mode="sync")
    obs, infos = envs.reset(seed=np.array([3, 4]).tolist())
    assert obs.shape == (2, 52)
    assert infos["red_agent"].tolist() == [RED_AGENTS.index("B_lineAgent")] * 2

"""What both envs take, and refuse before anything has happened, whatever the simulator."""

import copy
import functools
import math
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeAwareObservation

from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.env.vector_env import CompiledVectorEnv
from workflow_rl.cage2.red.roster import REDS
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS, RED_AGENTS

ENV_ID = "workflow_rl/CAGE2-v0"
SIMULATORS = ("compiled", "cyborg", "published")


def single(simulator: str) -> Cage2Env:
    env = Cage2Env("mixed", max_steps=20, simulator=simulator)
    env.reset(seed=1)
    env.step(50)
    return env


def vector() -> CompiledVectorEnv:
    envs = CompiledVectorEnv(2, "mixed", max_steps=20)
    envs.reset(seed=1)
    envs.step(np.array([50, 51]))
    return envs


def rest(env: Any) -> str:
    """What follows, across the end of the episode."""
    is_vector = isinstance(env, CompiledVectorEnv)
    shown = []
    for action in range(19):
        shown.append(repr(env.step(np.full(2, action) if is_vector else action)))
    return "".join((*shown, repr(env.reset())))


WRONG_SEEDS = (-1, 2**63, 2**70, 1.5, math.nan, "1", True, [1], np.array([1]), np.array(True))
WRONG_ACTIONS = (-1, 145, 2**70, 1.5, "0", None, [1], np.array([1, 2]), True, np.True_)
WRONG_OPTIONS: tuple[Any, ...] = (
    *({"red_agnet": "SleepAgent"}, {"red_agent": "Red"}, {"red_agent": 3}, {"seed": 1}),
    *(["red_agent"], 5),
)


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_single_envs_refuse_what_is_wrong_before_anything_happens(simulator: str) -> None:
    env = single(simulator)
    twin = copy.deepcopy(env)
    for seed in WRONG_SEEDS:
        with pytest.raises(ValueError, match="seed="):
            env.reset(seed=seed)  # type: ignore[arg-type]
    for action in WRONG_ACTIONS:
        with pytest.raises(ValueError, match="action="):
            env.step(action)  # type: ignore[arg-type]
    for options in WRONG_OPTIONS:
        with pytest.raises(ValueError, match=r"red_ag|seed|options"):
            env.reset(options=options)
    assert rest(env) == rest(twin)


@pytest.mark.parametrize("describe_steps", [True, False])
def test_vector_envs_refuse_what_is_wrong_before_anything_happens(describe_steps: bool) -> None:
    envs = vector()
    envs.describe_steps = describe_steps
    twin = copy.deepcopy(envs)
    # One for each of two is no mistake here, but these are of one.
    of_one: list[Any] = [[0, seed] for seed in WRONG_SEEDS]
    for seed in (*WRONG_SEEDS, 2**63 - 1, *of_one, [1], [1, 2, 3], [[1]]):
        with pytest.raises(ValueError, match="seed"):
            envs.reset(seed=seed)
    for actions in (
        *([5], [[5, 5]], 5, [5, 5, 5], [5, -1], [145, 5], [1.0, 2.0], ["a", "b"], [True, False]),
        *([5, 2**70], None, [None, 1], []),
    ):
        with pytest.raises(ValueError, match="action"):
            envs.step(actions)  # type: ignore[arg-type]
    for options in (*WRONG_OPTIONS, {"red_agent": ["SleepAgent"]}, {"reset_mask": [True]}):
        with pytest.raises(ValueError, match=r"red_ag|seed|reset_mask|options"):
            envs.reset(options=options)
    assert rest(envs) == rest(twin)


@pytest.mark.parametrize("n", [0, -1, 1.5, "3", True])
def test_numbers_of_envs_are_whole(n: Any) -> None:
    with pytest.raises(ValueError, match="num_envs="):
        CompiledVectorEnv(n)
    with pytest.raises(ValueError, match=r"n=.*(whole number|not from 1)"):
        single("compiled").fork(n)


def test_seeds_may_be_of_any_whole_kind() -> None:
    for seeds in (np.array([3, 4]), [3, np.int64(4)], (3, 4), 3, np.int32(3), np.uint64(3)):
        envs = CompiledVectorEnv(2, max_steps=3)
        envs.reset(seed=seeds)  # type: ignore[arg-type]
        single_env = functools.partial(Cage2Env, max_steps=3, simulator="compiled")
        reference = SyncVectorEnv([single_env] * 2)
        reference.reset(seed=[3, 4])
        for _ in range(9):
            steps = [one.step(np.zeros(2, np.int64)) for one in (envs, reference)]
            assert data_equivalence(*steps, exact=True)


@pytest.mark.parametrize("seed", [2**31, 2**32 - 1, 2**32, 2**62 + 11, 2**63 - 1])
def test_large_seeds_are_the_same_in_all_simulators(seed: int) -> None:
    shown = []
    for simulator in SIMULATORS:
        env = Cage2Env("RedMeanderAgent", simulator=simulator)
        env.reset(seed=np.uint64(seed))  # type: ignore[arg-type]
        shown.append([repr(env.step(3 * i)) + repr(env.describe()) for i in range(40)])
    assert shown[0] == shown[1] == shown[2]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"red_agent": "Red"}, ValueError, "red_agent: 'Red' is no red agent: choose B_line"),
        ({"red_agent": None}, ValueError, "red_agent: None"),
        ({"max_steps": 0}, ValueError, "max_steps=0"),
        ({"max_steps": 1.5}, ValueError, r"max_steps=1\.5"),
        ({"max_steps": True}, ValueError, "max_steps=True"),
        ({"max_steps": np.array([3])}, ValueError, "max_steps=array"),
        ({"max_steps": 2**70}, ValueError, "max_steps=1180591620717411303424: it is not from 1"),
        ({"simulator": "compield"}, ValueError, "simulator='compield': .*compiled"),
        ({"obs_dtype": "float16"}, ValueError, "obs_dtype='float16': choose one of float32, uint8"),
        ({"render_mode": "human"}, TypeError, "render_mode='human'"),
    ],
)
def test_wrong_arguments_are_named(arguments: Any, error: Any, message: str) -> None:
    for kind in (Cage2Env, CompiledVectorEnv):
        with pytest.raises(error, match=message):
            kind(**arguments)
    with pytest.raises(ValueError, match="names 3 agents, but num_envs=2"):
        CompiledVectorEnv(2, RED_AGENTS)


# --- Observations and infos ----------------------------------------------------------------------


@pytest.mark.parametrize("obs_dtype", ["float32", "uint8"])
def test_observations_have_the_dtype_asked_for(obs_dtype: str) -> None:
    envs: list[Any] = [Cage2Env(simulator=name, obs_dtype=obs_dtype) for name in SIMULATORS]
    envs.append(CompiledVectorEnv(1, obs_dtype=obs_dtype))
    shown = []
    for env in envs:
        assert env.observation_space.dtype == obs_dtype
        actions: Any = np.array([40]) if isinstance(env, CompiledVectorEnv) else 40
        seen = [env.reset(seed=2)[0], *(env.step(actions)[0] for _ in range(20))]
        assert all(env.observation_space.contains(obs) for obs in seen)
        shown.append(np.stack([obs.ravel() for obs in seen]))
    assert all(np.array_equal(one, shown[0]) for one in shown)
    assert len(np.unique(shown[0], axis=0)) > 1


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_infos_have_one_shape_and_kind_after_every_call(simulator: str) -> None:
    env = Cage2Env("mixed", max_steps=15, simulator=simulator)
    kinds = set()
    for seed in range(4):
        infos = [env.reset(seed=seed)[1], *(env.step(9 * i)[4] for i in range(15))]
        for info in infos:
            arrays = {name: np.asarray(value) for name, value in info.items()}
            kinds.add(str([(n, type(info[n]), a.shape, a.dtype) for n, a in arrays.items()]))
    assert len(kinds) == 1


# --- Red agents ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mixture", ["mixed", "attackers", "SleepAgent=3,B_lineAgent=2"])
def test_a_mixtures_episodes_draw_their_red_agent_by_their_seed(mixture: str) -> None:
    made: Any = gymnasium.make(ENV_ID, red_agent=mixture, simulator="compiled", max_steps=2)
    envs: Any = gymnasium.make_vec(ENV_ID, num_envs=30, red_agent=mixture, max_steps=2)
    _, infos = envs.reset(seed=5)
    assert {RED_AGENTS[i] for i in infos["red_agent"]} == {*REDS.read(mixture).variants}
    for i in range(30):
        _, info = made.reset(seed=5 + i)
        assert info["red_agent"] == infos["red_agent"][i]
        assert RED_AGENTS[info["red_agent"]] == REDS.read(mixture).drawn(5 + i).name
    _, info = made.reset(seed=1, options={"red_agent": "SleepAgent"})
    assert RED_AGENTS[info["red_agent"]] == "SleepAgent"


# --- Gymnasium's own names -----------------------------------------------------------------------


@pytest.mark.parametrize("simulator", ["compiled", "cyborg"])
def test_gymnasium_finds_the_length_of_an_episode(simulator: str) -> None:
    env = gymnasium.make(ENV_ID, simulator=simulator)
    assert env.spec.max_episode_steps == 100
    assert gymnasium.make(ENV_ID, simulator=simulator, max_steps=7).spec.max_episode_steps == 7  # type: ignore[union-attr]
    timed = TimeAwareObservation(gymnasium.make(ENV_ID, simulator=simulator, max_steps=4))
    timed.reset(seed=0)
    assert timed.step(0)[0].shape == (53,)
    shorter = gymnasium.make(ENV_ID, simulator=simulator, max_episode_steps=3)
    shorter.reset(seed=0)
    assert [shorter.step(0)[3] for _ in range(3)] == [False, False, True]


def test_gymnasiums_name_for_the_length_does_for_vector_envs() -> None:
    for arguments, length in (
        ({"max_episode_steps": 3}, 3),
        ({"max_episode_steps": 200}, 200),
        ({"max_steps": 5}, 5),
        ({"max_steps": 5, "max_episode_steps": 3}, 3),
        ({}, 100),
    ):
        envs: Any = gymnasium.make_vec(ENV_ID, num_envs=2, render_mode=None, **arguments)
        assert envs.unwrapped.max_steps == length
        assert envs.unwrapped.spec.max_episode_steps == length
    single_envs: Any = gymnasium.make_vec(
        ENV_ID, num_envs=2, vectorization_mode="sync", max_episode_steps=3, render_mode=None
    )
    single_envs.reset(seed=0)
    assert [single_envs.step([0, 0])[3].tolist() for _ in range(3)][-1] == [True, True]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_the_vector_env_says_how_it_resets(mode: AutoresetMode) -> None:
    envs = CompiledVectorEnv(2, autoreset_mode=mode)
    assert envs.autoreset_mode == envs.metadata["autoreset_mode"] == mode
    assert "autoreset_mode" not in CompiledVectorEnv.metadata


# --- Masks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_decoys_that_are_not_masked_succeed(simulator: str) -> None:
    """In episodes that set up decoys of all kinds, among other things; of these none is masked
    that could do any good."""
    env = Cage2Env("SleepAgent", max_steps=60, simulator=simulator)
    random = np.random.default_rng(1)
    n_decoys = 0
    for seed in range(4):
        env.reset(seed=seed)
        for _ in range(60):
            masks = env.action_masks()
            assert masks.dtype == np.bool_
            assert masks.shape == (145,)
            assert masks[0]
            assert not masks[1]
            for host in set(HOSTS) - {"User0", "Defender"}:
                for kind in ("Analyse", "Remove", "Restore"):
                    assert masks[ACTION_NAMES.index(f"{kind} {host}")]
            assert not masks[[i for i, name in enumerate(ACTION_NAMES) if "User0" in name]].any()
            action = int(random.integers(28, 145))
            name = ACTION_NAMES[action]
            env.step(action)
            if name.startswith("Decoy") and masks[action]:
                assert env.describe()["blue_success"] == "TRUE", name
                n_decoys += 1
    assert n_decoys > 20

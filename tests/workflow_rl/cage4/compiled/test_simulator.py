import copy
import pickle

import numpy as np
import pytest
from numpy.typing import NDArray

from workflow_rl.cage.network_batch import SimulationError
from workflow_rl.cage4.compiled.batched_simulator import BatchedSimulator, step_envs
from workflow_rl.cage4.compiled.simulator import CompiledSimulator, masks_by_agent, observations_of
from workflow_rl.cage4.compiled.state import SIZES, state_for
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.scenario.costs import EVALUATED
from workflow_rl.cage4.scenario.scenario4 import RED_AGENTS, SLEEP_ACTIONS, VARIANTS, Scenario
from workflow_rl.cage4.scenario.simulator_protocol import Simulator

N_ENVS = 3


def drawn_actions(masks: NDArray[np.bool_], draws: np.random.Generator) -> NDArray[np.int64]:
    """Return possible actions, `[N, 5]`."""
    return np.array(
        [[draws.choice(np.flatnonzero(mask)) for mask in masks_by_agent(row)] for row in masks]
    )


@pytest.fixture
def batch() -> BatchedSimulator:
    simulator = BatchedSimulator(N_ENVS)
    simulator.reset([4, 5, 6])
    return simulator


def test_a_batch_plays_what_single_networks_play(batch):
    singles: list[Simulator] = [CompiledSimulator(RED_AGENTS[0], 500) for _ in range(N_ENVS)]
    for i, single in enumerate(singles):
        single.reset(4 + i)
    draws = np.random.default_rng(0)
    for _ in range(60):
        actions = drawn_actions(batch.masks, draws)
        messages = draws.integers(0, 2, (N_ENVS, 5, 8))
        obs, rewards, dones = batch.step(actions, messages)
        for i, single in enumerate(singles):
            result = single.step(actions[i].tolist(), messages[i])
            for own, other in zip(observations_of(obs[i]), result.observations, strict=True):
                assert np.array_equal(own, other)
            assert rewards[i].tolist() == [result.machine_reward, result.action_cost]
            assert bool(dones[i]) is result.done
            assert result.reward == rewards[i].sum()


def test_a_scenario_may_have_more_fields_and_nothing_else_is_one():
    more = CompiledSimulator(RED_AGENTS[0], 500, Cage4(users=4, servers=2))
    plain = CompiledSimulator(RED_AGENTS[0], 500, Scenario(users=4, servers=2))
    for simulator in (more, plain):
        simulator.reset(3)
    assert more.state["scenario"] == plain.state["scenario"]
    assert np.array_equal(np.concatenate(more.masks), np.concatenate(plain.masks))
    with pytest.raises(ValueError, match="scenario='more-phishing': a Scenario is needed"):
        CompiledSimulator(RED_AGENTS[0], 500, "more-phishing")  # type: ignore[arg-type]


def test_envs_that_are_not_chosen_stay(batch):
    before = batch.save()
    batch.step(SLEEP_ACTIONS, np.ones((5, 8), np.bool_), chosen=[False, True, False])
    batch.reset([None, 9, 9], chosen=[False, False, True])
    for array, saved in zip(batch.save(), before, strict=True):
        assert np.array_equal(array[0], saved[0])
    assert batch.states["step_count"].tolist() == [0, 1, 0]


def test_a_snapshot_and_a_pickle_go_on_alike():
    """In their scenario, and with the levels of hosts before the step, from which costs follow."""
    batch = BatchedSimulator(N_ENVS, scenario=VARIANTS["more-phishing"], measures=True)
    batch.reset([4, 5, 6])
    draws = np.random.default_rng(1)
    for _ in range(60):
        batch.step(drawn_actions(batch.masks, draws))
    snapshot, twin = batch.save(), pickle.loads(pickle.dumps(batch))
    actions = drawn_actions(batch.masks, draws)
    expected = [array.copy() for array in (*batch.step(actions), batch.costs)]
    assert expected[-1][:, EVALUATED.index("counter_actions")].any()
    batch.reset([7, 8, 9])
    batch.load(snapshot)
    for simulator in (twin, batch):
        found = *simulator.step(actions), simulator.costs
        assert all(map(np.array_equal, found, expected))
        simulator.reset()
        simulator.step(SLEEP_ACTIONS)
    assert np.array_equal(twin.states.view(np.uint8), batch.states.view(np.uint8))
    with pytest.raises(ValueError, match="another number of envs"):
        BatchedSimulator(1).load(snapshot)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy])
def test_a_copy_goes_on_alone(batch, way):
    single = CompiledSimulator(RED_AGENTS[0], 500)
    single.reset(4)
    before = single.true_state()
    copies = way(batch), way(single)
    for _ in range(3):
        batch.step(SLEEP_ACTIONS)
        result = single.step(SLEEP_ACTIONS)
    assert copies[1].true_state() == before
    assert copies[0].states["step_count"].tolist() == [0] * N_ENVS
    for _ in range(3):
        copies[0].step(SLEEP_ACTIONS)
        assert not np.shares_memory(copies[0].obs, batch.obs)
        repeated = copies[1].step(SLEEP_ACTIONS)
    assert np.array_equal(copies[0].obs, batch.obs)
    assert copies[1].true_state() == single.true_state()
    assert repeated.reward == result.reward


def test_messages_reach_the_other_agents(batch):
    messages = np.zeros((N_ENVS, 5, 8), np.bool_)
    messages[1, 2, 3] = True
    received = [observations_of(row) for row in batch.step(SLEEP_ACTIONS, messages)[0]]
    for agent, observation in enumerate(received[1]):
        sender = 2 if agent > 2 else 1
        bits = observation[-32:].reshape(4, 8)
        wanted = np.zeros((4, 8), np.int64)
        if agent != 2:
            wanted[sender, 3] = 1
        assert np.array_equal(bits, wanted)
    assert not any(observation[-32:].any() for observation in received[0])


def test_arrays_in_another_order_do_not_compile_it_again(batch):
    batch.step(SLEEP_ACTIONS)
    compiled = len(step_envs.signatures)
    batch.step(np.full((5, N_ENVS), SLEEP_ACTIONS[0]).T, np.zeros((8, 5, N_ENVS)).T)
    assert len(step_envs.signatures) == compiled


def test_an_episode_is_truncated_a_step_before_its_length():
    batch = BatchedSimulator(1, max_steps=5, red_agent="SleepAgent")
    batch.reset([1])
    dones = [bool(batch.step(SLEEP_ACTIONS)[2][0]) for _ in range(5)]
    assert dones == [False, False, False, True, True]
    assert batch.states["phase"][0] == 2
    with pytest.raises(SimulationError, match="env 0: CybORG itself fails: step 5 exceeds"):
        batch.step(SLEEP_ACTIONS)


def test_an_episode_without_a_seed_goes_on_with_the_stream(batch):
    again = BatchedSimulator(N_ENVS)
    again.reset([4, 5, 6])
    for simulator in (batch, again):
        simulator.step(SLEEP_ACTIONS)
        simulator.reset()
    assert np.array_equal(batch.obs, again.obs)
    assert np.array_equal(batch.states["host_octet"], again.states["host_octet"])
    again.reset([4, 5, 6])
    assert not np.array_equal(batch.states["host_octet"], again.states["host_octet"])


def test_a_first_episode_without_a_seed_differs_each_time():
    octets = []
    for _ in range(2):
        simulator = CompiledSimulator("SleepAgent", 500)
        simulator.reset()
        octets.append(simulator.state["host_octet"].tolist())
    assert octets[0] != octets[1]


@pytest.mark.parametrize(
    ("call", "given", "message"),
    [
        ("step", [[0, 0, 0, 82, 0]], "agent 3 has those from 0 to 81"),
        ("step", [[0, 0, 0, 0, 242]], "agent 4 has those from 0 to 241"),
        ("step", [[0, 83, 0, 0, 0]], "agent 1 has those from 0 to 81"),
        ("step", [[-1, 0, 0, 0, 0]], "agent 0 has those from 0 to 81"),
        ("step", [[0.5, 0, 0, 0, 0]], "integers are needed, not float64"),
        ("step", [[True] * 5], "integers are needed, not bool"),
        ("step", [[0] * 6], r"actions: an array of \(3, 5\) is needed, not of \(6,\)"),
        ("step", [SLEEP_ACTIONS, np.full((5, 8), 2)], "zeros and ones are needed, not 2"),
        ("step", [SLEEP_ACTIONS, np.full((5, 8), 0.5)], r"zeros and ones are needed, not 0\.5"),
        ("step", [SLEEP_ACTIONS, np.zeros((4, 8))], r"messages: an array of \(3, 5, 8\) is needed"),
        ("reset", [[1.5, 2, 3]], r"seed=1\.5: a whole number is needed"),
        ("reset", [[True, 2, 3]], "seed=True: a whole number is needed"),
        ("reset", [[1, -2, 3]], "seed=-2: choose 0 or more"),
        ("reset", [[1, 2]], "seeds: 3 are needed, not 2"),
    ],
)
def test_what_a_batch_cannot_take_is_refused(batch, call, given, message):
    with pytest.raises(ValueError, match=message):
        getattr(batch, call)(*given)


def test_other_arguments_are_checked():
    with pytest.raises(ValueError, match="max_steps=2: choose 3 or more"):
        BatchedSimulator(1, max_steps=2)
    with pytest.raises(ValueError, match=r"max_steps=9\.5: a whole number is needed"):
        BatchedSimulator(1, max_steps=9.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'B_line' is not one of FiniteStateRedAgent, "):
        BatchedSimulator(1, red_agent="B_line")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("n_cells", state_for(500)["cells"].shape[0] - 1, "more than 32000 events"),
        ("n_log", state_for(500)["log_port"].shape[0], "more than 96000 ephemeral ports"),
    ],
)
def test_past_a_bound_an_env_says_so(field, value, message):
    simulator = BatchedSimulator(2)
    simulator.reset([1, 2])
    simulator.states[field][1] = value
    with pytest.raises(SimulationError, match=f"env 1: {message}"):
        simulator.step(SLEEP_ACTIONS)
    simulator.reset([1, 2])
    simulator.step(SLEEP_ACTIONS)


def test_a_thousand_envs_fit_into_memory():
    assert 1_000 * state_for(SIZES[0]).itemsize < 2**31

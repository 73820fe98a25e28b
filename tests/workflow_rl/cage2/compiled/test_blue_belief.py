"""What Blue concludes, against what really happened."""

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from workflow_rl.cage2.agent.network_facts import BlueDecoys, untold_facts
from workflow_rl.cage2.compiled.batched_simulator import BatchedSimulator
from workflow_rl.cage2.compiled.blue_belief import (
    BELIEF,
    CONTESTED,
    DECOY_SET,
    MAX_DECOY_SETS,
    N_CANDIDATES,
    N_HYPOTHESES,
    WORTH_A_DECOY,
    begin_beliefs,
    conclude_steps,
    decoys_of_use,
    n_shown,
)
from workflow_rl.cage2.compiled.description import SCENARIO2, Tables, tables_of
from workflow_rl.cage2.compiled.red_hypothesis import HYPOTHESIS
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS, RED_AGENTS

_DECOYS = BlueDecoys(untold_facts(Scenario.scenario2()))
_DECOYS.begin([0])
USEFUL = np.flatnonzero(_DECOYS.useful_actions([0])[0])

SLEEP = 0
TABLES, N_HOSTS = SCENARIO2.record, len(HOSTS)
B_LINE, MEANDER, SLEEPS = map(RED_AGENTS.index, ("B_lineAgent", "RedMeanderAgent", "SleepAgent"))
RESTORE = np.array([ACTION_NAMES.index(f"Restore {host}") for host in HOSTS])
ANALYSE = np.array([ACTION_NAMES.index(f"Analyse {host}") for host in HOSTS])
USER2 = HOSTS.index("User2")
DECOYS = [ACTION_NAMES.index(f"{decoy} User2") for decoy in ("DecoyFemitter", "DecoyTomcat")]
QUIET = np.zeros((1, 52), np.uint8)
SCANNED = QUIET.copy()
SCANNED[0, 4 * USER2] = 1


class Believing:
    """N envs of the compiled simulator, and what Blue concludes in each."""

    def __init__(
        self, n_envs: int, red_agent: int, seed: int = 0, scenario: Tables = SCENARIO2
    ) -> None:
        self.simulator = BatchedSimulator(n_envs, tables=scenario)
        of_use = decoys_of_use(scenario)
        self._scenario = scenario.record, of_use
        obs = self.simulator.reset(np.arange(n_envs) + seed, red_agent).copy()
        self.beliefs = np.zeros(n_envs, BELIEF)
        self.hypotheses = np.zeros((n_envs, N_HYPOTHESES), HYPOTHESIS)
        self.shown = np.empty((n_envs, n_shown(len(of_use))), np.uint8)
        self._working = np.zeros(N_CANDIDATES, HYPOTHESIS), np.zeros(MAX_DECOY_SETS, DECOY_SET)
        self._all = np.arange(n_envs)
        begin_beliefs(self.beliefs, *self._scenario, self._all, self.hypotheses, obs, self.shown)

    def step(self, actions: NDArray[np.int64]) -> NDArray[np.uint8]:
        obs = self.simulator.step(actions)[0].copy()
        self.conclude(actions, obs)
        return obs

    def conclude(self, actions: NDArray[np.int64], obs: NDArray[np.uint8]) -> None:
        conclude_steps(
            *(self.beliefs, *self._scenario, self._all, self.hypotheses),
            *(*self._working, actions, obs, self.shown),
        )

    @property
    def probability(self) -> NDArray[np.float64]:
        """[N, N_HYPOTHESES]."""
        is_one = np.arange(N_HYPOTHESES) < self.beliefs["n_hypotheses"][:, None]
        return np.where(is_one, self.beliefs["probability"], 0)

    def of_hosts(self, field: str) -> NDArray[np.float64]:
        """The probabilities of a mask's bits [N, 11]."""
        masks = self.hypotheses[field]
        if field == "sessions":
            masks = masks | self.hypotheses["sandboxed"]
        return np.einsum("nk,nkh->nh", self.probability, bits(masks))

    def really(self, field: str) -> NDArray[np.int64]:
        """What they are about [N, 11]."""
        states = self.simulator.states
        if field == "sessions":
            return (states["n_red_sessions"][:, CONTESTED] > 0).astype(int)
        return bits(states[field])


def bits(masks: NDArray[Any]) -> NDArray[np.int64]:
    return masks[..., None].astype(int) >> CONTESTED & 1


def defending(
    random: np.random.Generator,
    obs: NDArray[np.uint8],
    restores: NDArray[np.int64] = RESTORE,
    others: NDArray[np.int64] = USEFUL,
) -> NDArray[np.int64]:
    """Random actions of all kinds, and often Restore where an exploit was seen."""
    exploited = obs.reshape(-1, N_HOSTS, 4)[:, :, 1]
    at_random = random.choice(others, len(obs))
    is_restored = exploited.any(axis=1) & (random.random(len(obs)) < 0.5)
    return np.where(is_restored, restores[exploited.argmax(axis=1)], at_random)


@pytest.mark.parametrize("red_agent", [B_LINE, MEANDER])
def test_probabilities_are_frequencies(red_agent: int) -> None:
    """Of all that is thought likely to some degree, so much is true; what is true is possible."""
    demand_frequencies(Believing(500, red_agent, seed=1000), defending)


@pytest.mark.parametrize("red_agent", [B_LINE, MEANDER])
def test_so_they_are_by_the_rules_of_cage_1(red_agent: int) -> None:
    """There, decoys are of kinds that Blue does not know, and let Red into a sandbox."""
    envs = Believing(500, red_agent, 1000, tables_of(Scenario.scenario1b()))
    names = Scenario.scenario1b().action_names
    restores = np.array([names.index(f"Restore {host}") for host in HOSTS])
    others = np.array([n for n, name in enumerate(names) if not name.startswith("Restore")])

    def defend(random: np.random.Generator, obs: NDArray[np.uint8]) -> NDArray[np.int64]:
        return defending(random, obs, restores, others)

    demand_frequencies(envs, defend, forgotten=3e-3)
    assert envs.beliefs["is_refuted"].mean() < 0.05


def demand_frequencies(envs: Believing, defend: Any, forgotten: float = 1e-3) -> None:
    random = np.random.default_rng(0)
    obs = np.zeros((500, 52), np.uint8)
    thought: dict[str, list[Any]] = {"sessions": [], "is_owned": [], "has_malware": []}
    true: dict[str, list[Any]] = {field: [] for field in thought}
    for _ in range(60):
        obs = envs.step(defend(random, obs))
        for field in thought:
            thought[field].append(envs.of_hosts(field))
            true[field].append(envs.really(field))
    for field in thought:
        probability, is_true = np.array(thought[field]).ravel(), np.array(true[field]).ravel()
        # But for what was so unlikely that it was forgotten.
        assert (probability[is_true == 1] == 0).mean() < forgotten, field
        edges = [1e-3, 0.2, 0.4, 0.6, 0.8, 0.999]
        for low, high in itertools.pairwise(edges):
            chosen = (probability > low) & (probability < high)
            # Steps of an episode are alike: episodes are what is independent.
            if chosen.sum() > 2000:
                difference = probability[chosen].mean() - is_true[chosen].mean()
                assert abs(difference) < 0.06, (field, low, high)
        # Nearly all is known: what is thought is off by a fiftieth of what a guess would be.
        guess = is_true.mean() * (1 - is_true.mean())
        assert np.square(probability - is_true).mean() < 0.15 * guess, field


def test_the_odds_of_an_exploit_worked_out_by_hand() -> None:
    """User2 with three decoys, scanned: Femitter's port in 75%, and 25% for five less one others:
    EternalBlue gives a shell of root, BlueKeep one of a user, and both are caught in 95%."""
    envs = Believing(1, MEANDER)
    exploited = SCANNED.copy()
    exploited[0, 4 * USER2 + 1] = 1
    # B_line exploits what it has scanned, before it does anything else.
    steps = [(DECOYS[0], QUIET), (DECOYS[1], SCANNED), (SLEEP, exploited)]
    for action, obs in steps:
        envs.conclude(np.array([action]), obs)
    assert (envs.hypotheses["red_agent"][0, : envs.beliefs["n_hypotheses"][0]] == B_LINE).all()
    at = CONTESTED.tolist().index(USER2)
    # Two decoys by then: a shell of root and one of a user, each as likely, nothing else.
    assert envs.of_hosts("sessions")[0, at] == pytest.approx(1)
    assert envs.of_hosts("removable")[0, at] == pytest.approx(0.5)
    assert envs.of_hosts("is_owned")[0, at] == pytest.approx(0.5)
    # Remove ends the user's; quiet then, for B_line escalates.
    envs.conclude(np.array([ACTION_NAMES.index("Remove User2")]), QUIET)
    assert envs.of_hosts("sessions")[0, at] == pytest.approx(0.5)
    # And if it has to exploit once more, it had lost it. A decoy looks like a scan.
    envs.conclude(np.array([SLEEP]), SCANNED)
    # 75% and one in three of 25%: decoys; the rest, 95% of them caught, which looks otherwise.
    fooled, unseen = 0.75 + 0.25 / 3, 2 * 0.25 / 3 * 0.05
    assert envs.of_hosts("sessions")[0, at] == pytest.approx(unseen / (fooled + unseen))


def test_a_decoy_set_up_after_the_scan_fools_nobody() -> None:
    """Red exploits what it found when it scanned."""
    envs = Believing(1, MEANDER)
    for action, obs in ((SLEEP, QUIET), (SLEEP, SCANNED), (DECOYS[0], QUIET)):
        envs.conclude(np.array([action]), obs)
    (belief,) = envs.beliefs
    assert belief["decoys"][USER2] != 0
    assert envs.hypotheses["decoys_when_scanned"][0, 0, USER2] == 0
    decoy = next(
        i
        for i, (host, decoy) in enumerate(WORTH_A_DECOY.tolist())
        if host == USER2 and belief["decoys"][USER2] >> decoy & 1
    )
    assert envs.shown[0, 52 + 2 * decoy : 54 + 2 * decoy].tolist() == [1, 0]


def test_analysis_tells_whether_red_left_files() -> None:
    random = np.random.default_rng(2)
    envs = Believing(300, MEANDER, seed=7)
    obs = np.zeros((300, 52), np.uint8)
    n_told, clean = 0, []
    for _ in range(30):
        doubtful = envs.of_hosts("has_malware")
        doubtful = np.where((doubtful > 0.01) & (doubtful < 0.99), doubtful, 0)
        before, at = envs.really("has_malware"), doubtful.argmax(axis=1)
        asks = doubtful.any(axis=1)
        obs = envs.step(np.where(asks, ANALYSE[CONTESTED[at]], defending(random, obs)))
        known = envs.of_hosts("has_malware")[np.arange(300), at]
        there = before[np.arange(300), at] == 1
        assert (known[asks & there] > 0.999).all()
        is_clean = ~there & (envs.really("has_malware")[np.arange(300), at] == 0)
        clean += known[asks & is_clean].tolist()
        n_told += (asks & there).sum()
    assert n_told > 20
    # But for what Red may have done in the same step.
    assert np.mean(clean) < 0.2

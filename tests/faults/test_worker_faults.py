import functools
from pathlib import Path

import pytest

from tests.faults.checks import assert_counted_once, assert_sound
from tests.faults.injection import FaultPlan, Injector, ObedientEnvs
from tests.faults.runs import MODES, SAME_WEIGHTS, SIMULATORS, config_of
from tests.processes import survivors, workers_of
from tests.tiny_runs import recorded_updates, run, same_weights

pytestmark = pytest.mark.system

N_WORKERS = 3
LATE = 4


@pytest.fixture(scope="module", params=SIMULATORS)
def simulator(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def strike(
    path: Path,
    mode: str,
    simulator: str,
    updates: int,
    counts: dict[str, int],
    seed: int,
    delay: float = 0.0,
) -> None:
    """Train while that happens, and check what every mode promises. delay: of every step, s."""
    config = config_of(mode, simulator, updates, "--worker-timeout", "1")
    orders = path.with_name("orders")
    orders.mkdir()
    make_envs = functools.partial(ObedientEnvs, config.environment.make_envs, orders, delay)
    # Or the run might be over while the injector gets no core.
    with recorded_updates(lambda: injector.keep_up()) as learned:
        plan = FaultPlan.drawn(seed, counts, updates, N_WORKERS)
        injector = Injector(plan, orders, lambda: len(learned))
        summary = run(path, config, make_envs=make_envs, watch=injector.into)
    struck = injector.struck.total()
    # The run does not wait for the last ones.
    assert struck >= sum(counts.values()) - LATE
    # Some strike a worker that has just raised, or that has nothing to do any more.
    assert summary["workers_restarted"] >= 0.9 * struck - N_WORKERS
    trajectories = [trajectory for _, some in learned for trajectory in some]
    assert_counted_once(path, config, trajectories)
    assert_sound(path, finished=True)
    assert not survivors(workers_of(), 5)


A_FEW = {"kill": 6, "stop": 1, "create": 1, "reset": 1, "step": 2}
# A run of twice as many updates does not end before 500 have struck.
MANY = {"kill": 250 + LATE, "stop": 100, "create": 25, "reset": 50, "step": 75}


@pytest.mark.parametrize(
    ("simulator", "mode"),
    [("cyborg", "sync"), ("compiled", "first-come-unrolls")],
    indirect=["simulator"],
)
def test_workers_that_fail_make_no_difference(mode, simulator, reference, tmp_path):
    strike(tmp_path / "run", mode, simulator, 20, A_FEW, seed=1)
    if mode in SAME_WEIGHTS:
        assert same_weights(tmp_path / "run", reference(SAME_WEIGHTS[mode], 20))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_500_faults_in_one_run(mode, simulator, reference, tmp_path):
    # A run that waits for no worker would be over before the first ones are replaced.
    delay = 0.0 if mode in SAME_WEIGHTS else 0.05
    strike(tmp_path / "run", mode, simulator, 1000, MANY, seed=2, delay=delay)
    if mode in SAME_WEIGHTS:
        assert same_weights(tmp_path / "run", reference(SAME_WEIGHTS[mode], 1000))

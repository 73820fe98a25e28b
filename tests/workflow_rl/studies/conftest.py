"""A population that several files of tests read or copy."""

from pathlib import Path

import pytest

from tests.workflow_rl.studies import population_runs


@pytest.fixture(scope="session")
def population(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished population whose members met."""
    path = tmp_path_factory.mktemp("population") / "run"
    exchange = population_runs.EXCHANGE
    configs = population_runs.configs_of(population_runs.N_POLICIES, exchange)
    population_runs.run(path, configs, exchange)
    return path

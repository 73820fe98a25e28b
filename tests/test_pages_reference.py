import csv
import fnmatch
import re
from pathlib import Path

import pytest

from tests.cli import said_by
from tests.pages import DOCS, prose, table
from workflow_rl.agents.algorithm import find
from workflow_rl.cage2.compiled.description import SCENARIO2
from workflow_rl.cage2.scenario.actions import BLUE
from workflow_rl.cage2.scenario2 import HOSTS
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.metrics import METRICS, return_columns

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    tiny = "--total-episodes 8 --episodes-per-update 4 --n-envs 2 --max-steps 5 --keep-every 1"
    said_by("train-async", tiny, "--final-evaluation 1 --quiet --run-dir", path)
    return path


def test_every_column_of_the_metrics_is_documented(run_dir):
    rows = table(DOCS / "reference" / "metrics.md", "column")
    with (run_dir / "metrics.csv").open(newline="") as file:
        assert [row[0].strip("`") for row in rows] == next(csv.reader(file))
    mixed = TrainConfig("async", env_args={"red_agent": "mixed"})
    (of_each,) = table(DOCS / "reference" / "metrics.md", "column of each")
    assert re.findall(r"`(\w+)`", of_each[0]) == list(return_columns(mixed).values())
    further = table(DOCS / "reference" / "metrics.md", "further column")
    own = [one for one in find("mbpo").metrics if one not in METRICS]
    assert [row[0].strip("`") for row in further] == own
    assert all(unit and meaning for _, unit, meaning in rows + further)


def test_every_file_of_a_run_is_documented(run_dir):
    rows = table(DOCS / "reference" / "run-folder.md", "file")
    documented = {row[0].strip("`"): row[1] for row in rows}
    there = {str(path.relative_to(run_dir)) for path in run_dir.rglob("*") if path.is_file()}
    patterns = [re.sub(r"\d+", "*", name) for name in documented]
    for name in there:
        assert any(fnmatch.fnmatch(name, pattern) for pattern in patterns), name
    for name, when in documented.items():
        if when in {"always", "at the end", "once there is one"}:
            assert any(fnmatch.fnmatch(one, name) for one in there), name


def test_the_tables_of_the_environment_are_right():
    page = DOCS / "reference" / "environment.md"
    hosts = table(page, "index")
    assert [row[1] for row in hosts] == list(HOSTS)
    costs = [float(row[2].split(",")[0]) for row in hosts]
    assert costs == [worth / 10 for worth in SCENARIO2.of["worth_of_host"]]
    assert (
        f"and {SCENARIO2.of['worth_of_ot_service'][0] / 10:g} while"
        in hosts[HOSTS.index("Op_Server0")][2]
    )
    assert f"Each Restore also costs {BLUE['Restore'].cost / 10:g}." in prose(page)

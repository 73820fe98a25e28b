"""A stranger's run, duel or search that this package would not write is one line of error."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.cli import output_of
from tests.strangers.folders import laid_out, poison
from workflow_rl.agents import algorithm
from workflow_rl.agents.policies.policy_file import load_policy
from workflow_rl.agents.ppo.algorithm import PPO
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.collection.schedule import BegunBatch, Share
from workflow_rl.errors import UserError
from workflow_rl.runs.checkpoint import read_values, save_checkpoint, write_values
from workflow_rl.runs.folder import NEEDED
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.studies.duel import _going_on
from workflow_rl.studies.duel_dir import DuelRecord, read_duel


class Demonstrated(PPOConfig):
    demos: str = ""


class Demonstrating(PPO):
    name, settings = "demonstrating", Demonstrated


@pytest.mark.parametrize(("demos", "is_opened"), [("expert", True), ("../secret", False)])
def test_an_installed_algorithm_gets_no_path_from_a_file(
    demos: str, is_opened: bool, made: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(algorithm._registered, "demonstrating", Demonstrating())

    def edit(config: dict[str, Any]) -> None:
        config["algorithm"] = "demonstrating"
        config["settings"]["demos"] = demos

    resume = laid_out(made, "ppo", "train-async")
    poison(folder, edit)
    for command in (resume, ["evaluate", "run", "--episodes", "1", "--quiet"]):
        said = output_of(*command, code=0 if is_opened else 2)
        told = f"the algorithm demonstrating with demos={demos!r}, which may name a file: give "
        assert (f"only the file mentions {told}--trust" in said) is not is_opened
    output_of(*resume, "--trust")


WHOLE = dict.fromkeys([*NEEDED, "eval_return_mean", "worker_utilisation"], 2.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("unlogged", row) for row in ({}, 5, {**WHOLE, "update": math.nan}, {**WHOLE, 3: 4.0})),
        *(("skipped_episodes", episodes) for episodes in (0, [None])),
        ("unfinished", [None]),
        *(("wall_seconds", 2**62), ("episodes", 1.5), ("diverged", 1), ("updates", "2")),
    ],
)
def test_the_counters_in_a_checkpoint_are_of_their_kinds(
    name: str, value: Any, made: Path, folder: Path
) -> None:
    resume, file = laid_out(made, "ppo", "train-async"), Path("run/checkpoint.safetensors")
    content = read_values(file)
    content["training"][name] = value
    write_values(file, content)
    assert "is not a checkpoint of this package" in output_of(*resume, code=2)


@pytest.mark.parametrize(
    "changes",
    [
        *({"share": share} for share in ([], [0, None], [0.5, 1], [0, 2**62], [-1, 1])),
        *({"policy_version": version} for version in ({}, None, 2**70)),
    ],
)
def test_a_begun_batch_has_a_share_of_the_run(
    changes: dict[str, Any], made: Path, folder: Path
) -> None:
    laid_out(made, "ppo", "train-async")
    policy = load_policy("run/agent.npz")[0].actor()
    checkpoint = load_checkpoint(Path("run/checkpoint.safetensors"))
    begun = [BegunBatch(policy, Share(0, 1))]
    save_checkpoint(Path("run/begun"), dataclasses.replace(checkpoint, begun=begun))
    assert load_checkpoint(Path("run/begun")).begun[0].share == (0, 1)
    content = read_values(Path("run/begun"))
    content["policies"][0] |= changes
    write_values(Path("run/begun"), content)
    with pytest.raises(UserError, match="is not a checkpoint of this package"):
        load_checkpoint(Path("run/begun"))


NOTHING: dict[str, list[str]] = {"Blue": [], "Red": []}


@pytest.mark.parametrize(
    "changes",
    [
        {"agents": {"Blue": "ab", "Red": "cd"}},
        {"agents": {"Blue": ["start/Blue.npz"], "Red": []}},
        {"payoffs": [["x"]]},
        {"intervals": [["x"]]},
    ],
)
def test_a_duel_has_no_agents_before_its_first_mixtures(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    DuelRecord({}, {}, NOTHING).write(tmp_path)
    file = tmp_path / "duel.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    with pytest.raises(UserError, match="cannot be read"):
        read_duel(tmp_path)


def test_a_duel_goes_on_with_its_own_sides(tmp_path: Path) -> None:
    DuelRecord({}, {}, {"Red": [], "Blue": []}).write(tmp_path)
    with pytest.raises(UserError, match=r"with both sides .*Red.*Blue.*, not .*Blue.*Red"):
        _going_on(tmp_path, DuelRecord({"num_steps_per_env": None}, {"start": {}}, NOTHING))

"""Folders of runs with other configs in all their files, and the commands that read them."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.strangers.watch import TINY, save
from workflow_rl.commands.tune import TUNE_FILE

RUNS = {
    "ppo": ["--env", "CartPole-v1", "--total-steps", "64", "--steps-per-update", "32"],
    "sac": [
        *("--algorithm", "sac", "--env", "CartPole-v1", "--total-steps", "64"),
        *("--steps-per-update", "32", "--warm-up-steps", "1000"),
    ],
    "cage2": [
        *("--max-steps", "4", "--episodes-per-update", "2", "--total-episodes", "4"),
        *("--simulator", "compiled"),
    ],
}
OF_PPO = ["network", "activation", "correction", "minibatches_of", "hidden_sizes"]
RESUME = ["--dry-run", "--quiet"]
READING = {
    "evaluate run": ["evaluate", "run", "--episodes", "1", "--quiet"],
    "evaluate checkpoint": ["evaluate", "run/checkpoint.pt", "--episodes", "1", "--quiet"],
    "evaluate policy": ["evaluate", "run/agent.npz", "--episodes", "1", "--quiet"],
    "evaluate video": ["evaluate", "run", "--video", "video", "--episodes", "1", "--quiet"],
    "export run": ["export", "run", "--format", "npz", "--output", "out.npz", "--overwrite"],
    "export policy": ["export", "run/agent.npz", "--format", "cage2", "--output", "out"],
    "improve": ["improve", "run/agent.npz", "improved.npz", "--episodes", "1", "--judges", "2"],
    "replay": ["replay", "run", "--max-steps", "2", "--output", "replay.html"],
    "replay policy": ["replay", "sleep", "--against", "run/agent.npz", "--max-steps", "2"],
    "verify": ["verify", "run"],
    "train-async": ["train-async", "--resume", "run", "--total-steps", "999", *RESUME],
    "train-sync": ["train-sync", "--resume", "run", *RESUME],
    "init-from": ["train-async", "--init-from", "run", *TINY, "--dry-run"],
    "several": ["train-async", "--resume", "population", "--total-steps", "999", *RESUME],
    "population": ["train-population", "--resume", "population", *RESUME],
    "tune": ["tune", "--resume", "tuned", "--trials", "1", *RESUME],
    "champion": ["train-champion", "--run-dir", "run"],
    "workflow": ["train-workflow", "--run-dir", "run"],
    "search-workflow": ["search-workflow", "run", "--episodes", "2", "--quiet"],
    "plot": ["plot", "run", "--output", "plot.png"],
    "plot population": ["plot", "population", "--output", "plot.png"],
    "report": ["report", "run", "--output", "report.html"],
    "report population": ["report", "population", "--output", "report.html"],
    "parity": ["parity", "--blue", "checkpoint", "--checkpoint", "run", "--episodes", "1"],
}


def poison(root: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edit the config in all files of runs, populations and searches, everywhere alike."""
    for path in (*root.rglob("config.json"), *root.rglob(TUNE_FILE)):
        values = json.loads(path.read_text())
        edit(values["config"] if path.name == TUNE_FILE else values)
        path.write_text(json.dumps(values))
    for path in root.rglob("machine.json"):
        values = json.loads(path.read_text())
        edit(values["config"])
        path.write_text(json.dumps(values))
    for path in root.rglob("population.json"):
        values = json.loads(path.read_text())
        for config in values["configs"]:
            edit(config)
        path.write_text(json.dumps(values))
    for path in root.rglob("*.pt"):
        content = torch.load(path, weights_only=True)
        edit(content["config"])
        save(path, content)
    for path in root.rglob("agent.npz"):
        _poison_policy(path, edit)


def _poison_policy(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    with np.load(io.BytesIO(path.read_bytes())) as file:
        arrays: dict[str, Any] = dict(file)
    about = json.loads(str(arrays["settings"]))
    config = {"settings": {name: about.get(name) for name in OF_PPO}, **about["about"]}
    edit(config)
    settings = config.pop("settings")
    about |= {name: settings[name] for name in ("network", "activation")}
    about["about"] = {"env_args": {}, **config}
    arrays["settings"] = np.array(json.dumps(about))
    np.savez(path, **arrays)


def laid_out(made: Path, kind: str, command: str) -> list[str]:
    """Lay out, in the current folder, what a command reads, as it was made. Returns the command."""
    for name in ("run", "population", "tuned", "out"):
        shutil.rmtree(name, ignore_errors=True)
    for name in {word.partition("/")[0] for word in READING[command][1:]}:
        if (made / kind / name).is_dir():
            shutil.copytree(made / kind / name, name)
    return READING[command]


def calling(env: str, args: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    def edit(config: dict[str, Any]) -> None:
        for name in ("red_agent", "max_steps", "simulator", "observation", "actions", "opening"):
            config.pop(name, None)
        config.update(env=env, env_args=args)

    return edit

"""Folders of runs with other configs in all their files, and the commands that read them."""

import io
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tests.strangers.watch import CANARY, TINY
from workflow_rl.commands.tune import TUNE_FILE
from workflow_rl.runs.checkpoint import read_values, write_values

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
OF_GUESTS = ("red_agent", "max_steps", "simulator", "observation", "actions", "opening")
RESUME = ["--dry-run", "--quiet"]
READING = {
    "evaluate run": ["evaluate", "run", "--episodes", "1", "--quiet"],
    "evaluate checkpoint": ["evaluate", "run/checkpoint.safetensors", "--episodes", "1", "--quiet"],
    "evaluate policy": ["evaluate", "run/agent.npz", "--episodes", "1", "--quiet"],
    "evaluate video": ["evaluate", "run", "--video", "video", "--episodes", "1", "--quiet"],
    "exploit": [
        *("exploit", "run/agent.npz", "--run-dir", "exploited", *TINY, "--total-episodes", "2"),
        *("--episodes-per-update", "2", "--n-policies", "1", "--selection-episodes", "2"),
        *("--episodes", "2"),
    ],
    "train-duel": ["train-duel", "--run-dir", "run", "--total-episodes", "2", "--quiet"],
    "export run": ["export", "run", "--format", "npz", "--output", "out.npz", "--overwrite"],
    "export policy": ["export", "run/agent.npz", "--format", "cage2", "--output", "out"],
    "record run": ["record", "run", "recorded.npz", "--episodes", "1", "--quiet"],
    "record policy": ["record", "run/agent.npz", "recorded.npz", "--episodes", "1", "--quiet"],
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
    "compare": ["compare", "run", "--output", "table.csv"],
    "describe-scenario": ["describe-scenario", "run/config.json", "--picture", "network.png"],
    "plot": ["plot", "run", "--output", "plot.png"],
    "plot population": ["plot", "population", "--output", "plot.png"],
    "report": ["report", "run", "--output", "report.html"],
    "report population": ["report", "population", "--output", "report.html"],
    "parity": ["parity", "--blue", "checkpoint", "--checkpoint", "run", "--episodes", "1"],
}


ENV_OF = {"ppo": "CartPole-v1", "sac": "CartPole-v1", "cage2": "workflow_rl/CAGE2-v0"}
OWN_MODULE = "own_module_of_the_user"
"""A harmless module in the folder, which the user names."""


def options_of(kind: str, command: str) -> list[list[str]]:
    """Options of a command that name something which the user gives, each of which may be left
    out."""
    env = ["--env", ENV_OF[kind]]
    resuming = [
        *(env, ["--env", f"{OWN_MODULE}:make"], ["--n-workers", "1"], ["--device", "cpu"]),
        *(["--algorithm", "sac" if kind == "sac" else "ppo"], ["--cluster", "none"]),
        *(["--network", "mlp"], ["--trace", "run/trace.json"], ["--setting", "discount=0.9"]),
        *(["--network", f"{OWN_MODULE}:Net"], ["--red-agent", "B_lineAgent"]),
    ]
    return {
        "evaluate": [
            *(env, ["--json", "run/scores.json"], ["--output-dir", "run/logs"]),
            *(["--which", "best"], ["--video", "run/video"], ["--agent", "sleep"]),
        ],
        "exploit": [env, ["--side", "Red"], ["--mode", "sync"]],
        "train-duel": [env, ["--generations", "1"], ["--start", "Blue=run"]],
        "export": [["--output", "run/out.npz"], ["--which", "latest"], ["--overwrite"]],
        "record": [env, ["--n-workers", "1"], ["--red-agent", "B_lineAgent"]],
        "replay": [env, ["--against", "run"], ["--output", "run/page.html"], ["--which", "best"]],
        "verify": [["--init-from", "run"]],
        "train-async": resuming,
        "train-sync": resuming,
        "train-population": resuming,
        "tune": [["--cluster", "none"], ["--n-workers", "1"], env],
        "train-champion": [env, ["--env", "workflow_rl/CAGE4-v0"], ["--seed", "1"]],
        "train-workflow": [["--workflow", "run/config.json"], ["--order", "users"]],
        "search-workflow": [["--output", "run/out"], ["--orders", "2"]],
        "compare": [["--output", "run/table.csv"], ["--baseline", "run"]],
        "describe-scenario": [
            ["--picture", "run/network.svg"],
            ["--json", "run/facts.json"],
            ["--draw", "2"],
        ],
        "plot": [["--output", "run/plot.png"], ["--timeline"]],
        "report": [["--output", "run/report.html"], ["--trace", "run/trace.json"], ["population"]],
        "parity": [env, ["--record", "run/record"]],
    }[READING[command][0]]


WRITTEN = [
    *("checkpoint.safetensors", ".checkpoint.safetensors.writing", "best.safetensors"),
    *("config.json", "metrics.csv", "summary.json", "machine.json", "run_id", "evaluation.json"),
    *(".evaluation.json.writing", "learning_curve.png", "champion.npz", "card.json", "page.html"),
    *("training.npz", "scores.json", "trace.json", "out.npz", "plot.png", "report.html", "record"),
    *("population.json", "tune.json", "study.db", "study.db-journal", "best.json", "policies.png"),
    *("video/CartPole-v1-episode-0.mp4", "table.csv", "network.svg", "kept/000002.safetensors"),
    *("kept/mean.npz", "logs/summary.json", "out/workflow.html"),
]
"""Files that commands write into the folders that they are given."""
FILLED = ["kept", "memory", "report_files", "policy-0", "policy-1", "trial-0", "final-0"]
"""Folders that commands make in them, without a word of the user's."""


def outside(folder: Path) -> Path:
    """The user's own files, beside the stranger's folder."""
    return folder.with_name(f"{folder.name}-own")


def plant(folder: Path, name: str, kind: str) -> None:
    """Put a link to the user's own files, to a file without end, or a pipe in a file's place."""
    path, own = folder / name, outside(folder) / "file"
    if any(one.is_symlink() or (one.exists() and not one.is_dir()) for one in path.parents):
        return
    path.parent.mkdir(exist_ok=True, parents=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"own": own, "folder": own.parent, "endless": "/dev/zero"}[kind])


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
    for path in root.rglob("*.safetensors"):
        content = read_values(path)
        edit(content["config"])
        with suppress(TypeError):  # Of arguments in more levels than a checkpoint holds.
            write_values(path, content)
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
    for path in Path().iterdir():
        if path.is_symlink() or not path.is_dir():
            if path.suffix != ".py":
                path.unlink()
        elif CANARY not in path.name:
            shutil.rmtree(path)
    for name in {word.partition("/")[0] for word in READING[command][1:]}:
        if (made / kind / name).is_dir():
            shutil.copytree(made / kind / name, name)
    return READING[command]


def calling(env: str, args: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    def edit(config: dict[str, Any]) -> None:
        for name in OF_GUESTS:
            config.pop(name, None)
        config.update(env=env, env_args=args)

    return edit

"""What a command line names without being read as a whole: an environment, an algorithm.

Files are read as data here: nothing is imported or called that only a file names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workflow_rl.commands.open_command import Look
from workflow_rl.environments.guests import default_env, guests
from workflow_rl.output_files import NOT_OURS, read_text
from workflow_rl.runs.presets import preset_named

MOST_OF_FILE = 2**24
_CONFIGS = ("config.json", "population.json", "tune.json")


def named_env(look: Look) -> str:
    """Return the environment of a training's command line: that of --env, of the resumed run, of
    the preset, or else the default."""
    return str(_named("env", look) or default_env())


def named_algorithm(look: Look) -> str:
    """Return the algorithm of a training's command line, as `named_env` does."""
    return str(_named("algorithm", look) or "ppo")


def _named(field: str, look: Look) -> Any:
    values = look.values
    preset = preset_named(values.get("preset"))
    return values.get(field) or config_in(_resumed(values)).get(field) or preset.get(field)


def _resumed(values: Mapping[str, str]) -> Path | None:
    if "resume" not in values:
        return None
    folders = (values["resume"], values.get("run_dir", ""))
    return next((Path(folder) for folder in folders if os.path.isdir(folder)), None)


def env_of_agents(look: Look) -> str:
    """Return the environment for the agent that a command line names.

    The environment that an existing file was trained on comes first, then --env, then the
    environment that a released agent of this name is for, then the default.
    """
    paths = [Path(word) for word in look.words]
    of_files = (env_of_agent(path) for path in paths if os.path.exists(path))
    if found := next(filter(None, of_files), None) or look.values.get("env"):
        return found
    return next(filter(None, map(env_of_agent, paths)), None) or default_env()


def config_in(folder: Path | None) -> Mapping[str, Any]:
    """Return the config in a folder of a run, of several policies or of a search, as it stands
    there; nothing if there is none that can be read."""
    if folder is None:
        return {}
    for name in _CONFIGS:
        try:
            content = json.loads(read_text(folder / name, MOST_OF_FILE))
            config = content.get("config") or content.get("configs", [content])[0]
        except NOT_OURS:
            continue
        if isinstance(config, dict):
            return config
    return {}


def env_of_agent(agent: Path) -> str | None:
    """Return the environment of an agent, which is a released agent's name or a path; None if
    nothing tells."""
    if not os.path.exists(agent):
        guest = guests.bringing("released", str(agent))
        return None if guest is None else guest.env_id
    env = config_in(agent).get("env") if os.path.isdir(agent) else None
    env = env or _env_in(agent)
    if isinstance(env, str):
        return env
    made = (one.env_id for one in guests.importable() if one.made_agent(agent) is not None)
    return next(made, None)


def _env_in(file: Path) -> Any:
    try:
        if file.suffix == ".npz":
            from workflow_rl.agents.policies.team_file import load_policy_or_team

            return load_policy_or_team(file)[1]["env"]
        from workflow_rl.runs.checkpoint import checkpoint_path, load_checkpoint  # With torch.

        return load_checkpoint(checkpoint_path(file)).config["env"]
    except NOT_OURS:
        return None

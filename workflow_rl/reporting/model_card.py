"""A folder for the Hugging Face Hub: an agent, and a model card with the facts of its run."""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import yaml

from workflow_rl.agents.policies.numpy_policy import Parameters
from workflow_rl.environments.challenge import Exported
from workflow_rl.environments.environment import Environment, described
from workflow_rl.evaluation.evaluate import scoring_of
from workflow_rl.evaluation.intervals import Mean, mean_of
from workflow_rl.output_files import MOST_OF_AGENT, copy_file, make_folder, write_json, write_text
from workflow_rl.reporting.report_run import Run
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.export import write_policy
from workflow_rl.runs.folder import RECORD_FILE, read_record
from workflow_rl.runs.saved_agent import POLICY_FILE
from workflow_rl.terminal import printable

SCORES_FILE = "results.json"
_COPIED = ("config.json", "summary.json", "metrics.csv", "learning_curve.png")
_OF_EPISODES = ("returns", "lengths", "totals")
"""Numbers for each episode, which the folder leaves out."""
_PLAY = """```python
from huggingface_hub import snapshot_download
from workflow_rl import evaluate, load_agent

folder = snapshot_download("USER/NAME")
print(evaluate(folder, episodes=10))
agent = load_agent(folder)
```"""


def write_hub(
    run: Run,
    config: TrainConfig,
    command: str,
    policy: Exported,
    environment: Environment,
    folder: Path,
) -> None:
    """Write the folder, which is not there yet. Raises ConfigError and OSError.

    command: trains such an agent. The card begins with what the Hub reads: see its "model card
    metadata".
    """
    make_folder(folder)
    write_policy(cast(Parameters, policy), environment, folder / POLICY_FILE)
    for name in _COPIED:
        if (run.path / name).is_file():
            copy_file(run.path / name, folder / name, MOST_OF_AGENT)
    score, told = None, "The agent was not scored."
    if run.evaluation is not None:
        returns = scoring_of(config.env).returns(run.evaluation)
        score = mean_of([*returns.values()])
        told = _score(run.evaluation, score, {name: len(returns[name]) for name in returns})
        write_json(folder / SCORES_FILE, _plain(run.evaluation))
    about = yaml.safe_dump(_metadata(run.name, config, score), sort_keys=False)
    facts = _facts(run, config).items()
    rows = "\n".join(f"| {name} | {in_markdown(value)} |" for name, value in facts)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", command)), default=0))
    sections = [
        f"---\n{about}---",
        f"# {in_markdown(run.name)}",
        f"## Score\n\n{told}",
        f"## Training\n\n| | |\n| --- | --- |\n{rows}",
        f"This command trains such an agent:\n\n{fence}bash\n{command}\n{fence}",
        f"## Play\n\n{_PLAY}",
    ]
    write_text(folder / "README.md", "\n\n".join(sections) + "\n")


def in_markdown(text: Any) -> str:
    """Return a text that somebody else may have written as the plain text of a line, or of a cell
    of a table."""
    return re.sub(r"[\\`*_\[\]<>|#~$&]", lambda sign: f"&#{ord(sign[0])};", printable(text))


def _metadata(name: str, config: TrainConfig, score: Mean | None) -> dict[str, Any]:
    tags = ["reinforcement-learning", "deep-reinforcement-learning", config.algorithm, config.env]
    about: dict[str, Any] = {"library_name": "workflow_rl", "tags": tags}
    if score is None:
        return about
    result = {
        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
        "dataset": {"type": config.env, "name": config.env},
        "metrics": [{"type": "mean_reward", "name": "mean_reward", "value": round(score.mean, 4)}],
    }
    return {**about, "model-index": [{"name": name, "results": [result]}]}


def _score(evaluation: Mapping[str, Any], score: Mean, episodes: Mapping[str, int]) -> str:
    what = "the mean return" if len(episodes) == 1 else "the sum of the tasks' mean returns"
    tasks = "\n".join(f"- {in_markdown(name)}: {n} episodes" for name, n in episodes.items())
    return (
        f"**{score.told()}**, {what} with the 95% interval. "
        f"Seed {in_markdown(evaluation.get('seed'))}, {in_markdown(evaluation.get('actions'))} "
        f"actions. `{SCORES_FILE}` has all statistics.\n\n{tasks}"
    )


def _facts(run: Run, config: TrainConfig) -> dict[str, Any]:
    summary, made_on = run.summary or {}, {}
    with suppress(OSError, ValueError):
        made_on = read_record(run.path / RECORD_FILE).machines[0]
    begun = " It began with another agent's weights." if run.config["init_from"] else ""
    return {
        "environment": described(config.environment),
        "algorithm": config.algorithm,
        "network": getattr(config.settings, "network", "the algorithm's"),
        "episodes": int(run.last["episodes"]),
        "env steps": int(run.last["env_steps"]),
        "seconds": round(run.last["wall_seconds"], 1),
        "seed": config.seed,
        "run": f"{run.state}.{begun}",
        "weights of the last agent": summary.get("weights", "not known"),
        **{name: made_on[name] for name in ("processor", "python", "torch") if name in made_on},
    }


def _plain(scores: Any) -> Any:
    """Return scores without the numbers of single episodes."""
    if isinstance(scores, list):
        return [_plain(part) for part in scores]
    if not isinstance(scores, dict):
        return scores
    return {name: _plain(part) for name, part in scores.items() if name not in _OF_EPISODES}

"""Break the code in many small ways, one at a time, and see whether the tests notice.

A mutant that survives is a line that no test holds, or another way to write the same: the report
has each surviving mutant as a diff. Works on a copy of the checkout, with cosmic-ray's operators.

    python scripts/check_mutants.py --sample 20 workflow_rl/collection/assignments.py
"""

from __future__ import annotations

import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import islice
from pathlib import Path

import click
from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_and_test, mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
NOTICED_BY = {
    "agents/algorithm.py": "algorithm",
    "agents/mbpo/agent.py": "agent",
    "agents/mbpo/config.py": "config agent",
    "agents/mbpo/dynamics.py": "dynamics agent",
    "agents/mbpo/model_error.py": "model_error",
    "agents/policies/actor_critic.py": "actor_critic numpy_policy",
    "agents/policies/archive.py": "archive policy_file",
    "agents/policies/distributions.py": "distributions numpy_policy ../ppo/agent_continuous",
    "agents/policies/networks.py": "networks actor_critic numpy_policy policy_file",
    "agents/policies/numpy_policy.py": "numpy_policy policy_file",
    "agents/policies/policy_file.py": "policy_file",
    "agents/policies/torch_distributions.py": (
        "distributions ../ppo/losses ../ppo/agent_continuous"
    ),
    "agents/ppo/advantages.py": "advantages batch agent_policy_lag",
    "agents/ppo/agent.py": "agent agent_policy_lag agent_continuous",
    "agents/ppo/batch.py": "batch advantages agent",
    "agents/ppo/config.py": "config agent",
    "agents/ppo/losses.py": "losses agent",
    "agents/ppo/minibatches.py": "agent",
    "agents/ppo/running_statistics.py": "running_statistics agent",
    "agents/replay.py": "replay mbpo/agent",
    "agents/sac/agent.py": "../mbpo/agent",
    "agents/sac/algorithm.py": "algorithm",
    "agents/sac/soft_actor_critic.py": "soft_actor_critic ../mbpo/agent",
    "agents/sac/stacked_mlp.py": "stacked_mlp",
    "agents/saved.py": "algorithm ../workflow_rl/runs/saved_agent",
    "workflow_rl/cage2/agent/champion.py": "champion",
    "workflow_rl/cage2/scoring/protocol.py": "protocol",
    "workflow_rl/cage2/scoring/evaluation_env.py": "protocol recording",
    "workflow_rl/cage2/agent/rollouts.py": "rollouts improve",
    "workflow_rl/cage2/scoring/scores.py": "protocol report",
    "workflow_rl/cage2/scoring/selection.py": "selection ../agent/champion",
    "workflow_rl/environments/env_batch.py": "../collection/player ../collection/collectors",
    "workflow_rl/environments/episode.py": "episode ../runs/evaluation",
    "workflow_rl/environments/flat_env.py": "flat_env gymnasium_env",
    "workflow_rl/environments/gymnasium_env.py": "gymnasium_env",
    "workflow_rl/collection/sync_collector.py": "collectors",
    "workflow_rl/collection/async_collector.py": "collectors",
    "workflow_rl/collection/collector_thread.py": "schedule",
    "workflow_rl/collection/player.py": "player env_positions collectors",
    "workflow_rl/collection/pool.py": "local_pool collectors",
    "workflow_rl/collection/pooled_envs.py": "collectors",
    "workflow_rl/collection/recorder.py": "player env_positions collectors",
    "workflow_rl/collection/rollout.py": "collectors schedule",
    "workflow_rl/collection/schedule.py": "schedule",
    "workflow_rl/collection/env_positions.py": "env_positions collectors",
    "workflow_rl/collection/assignments.py": "assignments collectors",
    "workflow_rl/collection/worker.py": "worker local_pool collectors",
    "workflow_rl/collection/local_pool.py": "local_pool collectors",
    "workflow_rl/api.py": "runs/evaluation runs/any_env",
    "workflow_rl/reporting/report.py": "report",
    "workflow_rl/runs/batches.py": "presets overlap loop any_env",
    "workflow_rl/runs/best_agent.py": "best_agent",
    "workflow_rl/runs/checkpoint.py": "checkpoint saved_agent overlap",
    "workflow_rl/runs/config.py": "config presets",
    "workflow_rl/runs/evaluation.py": "evaluation any_env",
    "workflow_rl/runs/exchange.py": "exchange",
    "workflow_rl/runs/learner.py": "learner evaluation loop population any_env",
    "workflow_rl/runs/loop.py": "population loop",
    "workflow_rl/runs/memory.py": "memory",
    "workflow_rl/runs/population.py": "population",
    "workflow_rl/runs/population_dir.py": "population_dir population",
    "workflow_rl/runs/folder.py": "folder ../commands/verify loop",
    "workflow_rl/runs/plan.py": "../commands/train population",
    "workflow_rl/runs/resume.py": "../commands/train any_env",
    "workflow_rl/runs/spec.py": "config presets",
    "workflow_rl/runs/run_record.py": "../commands/verify",
    "workflow_rl/runs/saved_agent.py": "saved_agent any_env",
    "workflow_rl/runs/search.py": "search",
    "workflow_rl/runs/trust.py": "trust ../../strangers",
    "workflow_rl/commands/verify.py": "verify",
}
"""By module, the tests that have to notice, the quickest first, as its room's tests name them."""
# Types are written with | and never run.
LEFT_OUT = ("core/ReplaceBinaryOperator_BitOr_",)


def mutations_of(module: str, seed: int) -> list[MutationSpec]:
    """Return all mutations of a module of the working directory, in the order of the seed."""
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder) / "session.sqlite")
        with use_db(database, WorkDB.Mode.create) as session:
            init([Path(module)], session, {})
            found = [mutation for item in session.work_items for mutation in item.mutations]
    found = [one for one in found if not one.operator_name.startswith(LEFT_OUT)]
    found.sort(key=lambda one: (one.operator_name, one.start_pos))
    random.Random(f"{seed} {module}").shuffle(found)
    return found


def is_code(mutation: MutationSpec) -> bool:
    """Whether Python can read the mutated module: if not, no test has to notice."""
    operator = get_operator(mutation.operator_name)(**mutation.operator_args)
    source = mutation.module_path.read_text()
    mutated = mutate_code(source, operator, mutation.occurrence)
    try:
        ast.parse(mutated or source)
    except SyntaxError:
        return False
    return mutated is not None


def copy_checkout(folder: Path) -> None:
    """Copy the files that git knows or would add."""
    listed = subprocess.check_output(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True
    )
    for name in filter(lambda name: (ROOT / name).is_file(), listed.splitlines()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)


def command_of(module: str) -> str:
    files = []
    for name in NOTICED_BY[module].split():
        folder, _, last = f"tests/{Path(module).parent}/{name}".rpartition("/")
        files.append(os.path.normpath(f"{folder}/test_{last}.py"))
    return f"{sys.executable} -m pytest -x -q -p no:cacheprovider {' '.join(files)}"


@click.command(context_settings={"show_default": True})
@click.argument("modules", nargs=-1, type=click.Choice(list(NOTICED_BY)), metavar="[MODULE]...")
@click.option("--sample", type=click.IntRange(1), default=20, help="Mutants of each module.")
@click.option("--seed", default=0, help="Which mutants.")
@click.option("--timeout", default=300.0, help="Seconds after which a mutant counts as noticed.")
def main(modules: tuple[str, ...], sample: int, seed: int, timeout: float) -> None:
    """Break MODULE..., or every module that learns, collects, selects, scores, saves or loads."""
    named = list(modules or NOTICED_BY)
    total: Counter[str] = Counter()
    noticed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy_checkout(Path(folder))
        os.chdir(folder)
        # Compile the simulator once: the tests' workers would do so at the same time, and be late.
        compile_simulator = "from workflow_rl.cage2.env.environment import Cage2 as C"
        compile_simulator += "; C(simulator='compiled').check()"
        subprocess.run([sys.executable, "-c", compile_simulator], check=True)
        for command in sorted({command_of(module) for module in named}):
            unbroken = subprocess.run(command.split(), capture_output=True, text=True)
            if unbroken.returncode:
                raise click.ClickException(f"unbroken, {command} fails:\n{unbroken.stdout[-3000:]}")
        chosen = [
            (module, mutation)
            for module in named
            for mutation in islice(filter(is_code, mutations_of(module, seed)), sample)
        ]
        for module, mutation in tqdm(chosen, unit="mutant", dynamic_ncols=True):
            result = mutate_and_test([mutation], command_of(module), timeout)
            total[module] += 1
            if result.test_outcome is TestOutcome.SURVIVED:
                tqdm.write(f"{result.diff}\n", file=sys.stdout)
            else:
                noticed[module] += 1
        os.chdir(ROOT)
    for module in named:
        click.echo(f"{module:45} {noticed[module]:4} of {total[module]:4} noticed")
    share = noticed.total() / max(1, total.total())
    click.echo(f"{'all':45} {noticed.total():4} of {total.total():4} noticed: {share:.1%}")


if __name__ == "__main__":
    main()

"""The command `improve`: a CAGE-2 agent that has learned what a search finds."""

from __future__ import annotations

from pathlib import Path

import click

from workflow_rl.commands.clear import ClearCommand
from workflow_rl.commands.options import PATH, SEED, TRUST
from workflow_rl.output_files import require_writable


@click.command(cls=ClearCommand)
@click.argument("agent", type=PATH)
@click.argument("output", type=PATH)
@click.option("--episodes", default=2000, show_default=True, type=click.IntRange(1), metavar="N",
              help="Episodes against each attacker that find the states to search.")  # fmt: skip
@click.option("--steps", default=35, show_default=True, type=click.IntRange(1), metavar="N",
              help="Steps of an imagined episode.")  # fmt: skip
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), metavar="N",
              help="Number of processes. The result does not depend on this number.")  # fmt: skip
@click.option("--judges", default=8000, show_default=True, type=click.IntRange(2), metavar="N",
              help="Episodes against each attacker that compare the new agent with the old "
                   "one.")  # fmt: skip
@click.option("--seed", default=1, show_default=True, type=SEED, metavar="N",
              help="The same seed gives the same agent.")  # fmt: skip
@click.option("--trust", is_flag=True, help=TRUST)
def improve(
    agent: Path,
    output: Path,
    episodes: int,
    steps: int,
    jobs: int,
    judges: int,
    seed: int,
    trust: bool,
) -> None:
    """Improve a CAGE-2 agent by search, and write it as a policy file.

    AGENT is a run's folder, a checkpoint, a policy file or champion. It must observe Blue's belief
    (--observation belief) and have been trained against both attackers in episodes of 100 steps.
    OUTPUT is the policy file (.npz) to write. It is written, or replaced, only if
    the new agent scores better.

    The search plays the agent and takes the states that it meets most. In each of them it tries
    every other action in imagined episodes that start from what Blue believes. Then the network
    learns the actions that gain. This takes 7 minutes or more.

    Example: improve runs/champion improved.npz
    """
    from workflow_rl.agents.policies.team_file import load_policy_or_team
    from workflow_rl.cage2.agent.improve import compared, improved
    from workflow_rl.cage2.agent.rollouts import load_searchable
    from workflow_rl.runs.checkpoint import CheckpointError
    from workflow_rl.runs.export import write_policy
    from workflow_rl.runs.saved_agent import accept_agent

    if output.suffix != ".npz":
        raise click.BadParameter(f"{output}: give a name that ends in .npz", param_hint="OUTPUT")
    accept_agent(agent, trust)
    try:
        before, environment = load_searchable(agent)
    except CheckpointError as error:
        raise click.BadParameter(str(error), param_hint="AGENT") from None
    if before.activation != "tanh":
        raise click.BadParameter(
            f"{agent} has activation {before.activation}: only tanh can be improved",
            param_hint="AGENT",
        )
    require_writable(output, "OUTPUT")
    try:
        if output.exists():
            load_policy_or_team(output)
    except (OSError, ValueError) as error:
        message = f"{error}: it is left as it is, give another name"
        raise click.BadParameter(message, param_hint="OUTPUT") from None
    found = improved(before, environment, episodes, steps, jobs, seed)
    mean = compared(before, found.policy, environment, judges, seed)
    judgement = (
        f"{mean.after:.2f}, before {mean.before:.2f}: "
        f"{mean.after - mean.before:+.2f} ± {mean.interval_95:.2f}, in {judges} episodes against "
        "each attacker"
    )
    if mean.after > mean.before:
        write_policy(found.policy, environment, output)
    click.echo(
        f"{found.n_better} of {found.n_searched} states, of {found.n_met} met, have a better "
        f"choice, at first order worth {sum(found.gains.values()):+.2f} in all cells together:"
    )
    for (replaced, name), gain in sorted(found.gains.items(), key=lambda item: -item[1])[:8]:
        click.echo(f"  {gain:+.3f} {name} instead of {replaced}")
    if mean.after <= mean.before:
        raise click.ClickException(
            f"no better agent was found ({judgement}): {output} is not written"
        )
    click.echo(f"{output}: {judgement}")

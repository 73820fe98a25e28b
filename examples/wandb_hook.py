"""Sends the metrics to Weights & Biases after every update: --on-update examples.wandb_hook:log."""

import wandb


def log(update):
    if wandb.run is None:
        name = update.path.name
        config = update.config.flat()
        wandb.init(project="workflow_rl", name=name, id=name, resume="allow", config=config)
    wandb.log(dict(update.metrics), step=update.number)

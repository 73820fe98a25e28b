"""Sends the metrics to Weights & Biases after every update.

python -m workflow_rl train-async --total-episodes 3000 --on-update examples.wandb_hook:log
"""

import wandb


def log(update):
    if wandb.run is None:
        name = update.path.name
        config = update.config.flat()
        wandb.init(project="workflow_rl", name=name, id=name, resume="allow", config=config)
    wandb.log(dict(update.metrics), step=update.number)

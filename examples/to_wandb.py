"""Sends the metrics of a run to Weights & Biases.

Usage: WANDB_MODE=offline python examples/to_wandb.py runs/quick

Without WANDB_MODE=offline, the program uploads at once, after `wandb login`.
"""

import csv
import json
import math
import sys
from pathlib import Path

import wandb

folder = Path(sys.argv[1])
config = json.loads((folder / "config.json").read_text())
with (
    wandb.init(project="workflow_rl", name=folder.name, config=config) as run,
    (folder / "metrics.csv").open(newline="") as file,
):
    for row in csv.DictReader(file):
        values = {name: float(value) for name, value in row.items()}
        known = {name: value for name, value in values.items() if not math.isnan(value)}
        run.log(known, step=int(values["update"]))

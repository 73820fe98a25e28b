"""Sends the metrics to MLflow after every update.

python -m workflow_rl train-async --total-episodes 3000 --on-update examples.mlflow_hook:log
"""

import mlflow


def log(update):
    if mlflow.active_run() is None:
        mlflow.set_experiment("workflow_rl")
        mlflow.start_run(run_name=update.path.name)
        mlflow.log_params(update.config.flat())
    mlflow.log_metrics(dict(update.metrics), step=update.number)

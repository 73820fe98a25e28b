"""What environments are, where they are found by name, Gymnasium's, and simulators of one's own."""

from workflow_rl.environments.batched_env import BatchedEnv as BatchedEnv

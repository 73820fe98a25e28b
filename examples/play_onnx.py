"""Plays a team that was exported as ONNX, without this package.

python -m workflow_rl train-async --env examples.guards:Guards --total-episodes 600 --run-dir guards
python -m workflow_rl export guards --format onnx --output guards-onnx
python -m examples.play_onnx guards-onnx
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

from examples.guards import Guards

folder, players = Path(sys.argv[1]), {}
for file in json.loads((folder / "team.json").read_text()):
    session = onnxruntime.InferenceSession(folder / file["file"])
    for place, agent in enumerate(file["agents"]):
        players[agent] = session, place

env, total = Guards(), 0.0
observations, infos = env.reset(seed=1)
while env.agents:
    actions = {}
    for agent in env.agents:
        session, place = players[agent]
        given = {"obs": observations[agent][None], "agent": np.array([place])}
        inputs = {one.name: given[one.name] for one in session.get_inputs()}
        actions[agent] = int(session.run(None, inputs)[0].argmax())
    observations, rewards, terminations, truncations, infos = env.step(actions)
    total += sum(rewards.values())
print(total)

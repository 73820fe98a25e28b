"""Plays a policy file with NumPy alone: networks of the kind `mlp`, with `Discrete` actions.

python -m workflow_rl train-async --env CartPole-v1 --total-steps 30000 --run-dir runs/cart-pole
python -m workflow_rl export runs/cart-pole --format npz --output runs/cart-pole.npz
python examples/play_npz.py runs/cart-pole.npz
"""

import json
import sys

import numpy as np

ACTIVATIONS = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}


class Policy:
    def __init__(self, file, settings, prefix="", which=()):
        assert settings["network"] == "mlp"
        assert settings["distribution"][0] == "Categorical"
        names = [(f"{prefix}weight_{n}", f"{prefix}bias_{n}") for n in range(settings["layers"])]
        self.layers = [(file[weight], file[bias]) for weight, bias in names]
        self.activate = ACTIVATIONS[settings["activation"]]
        self.shift = [
            file[prefix + name] for name in ("obs_mean", "obs_scale") if prefix + name in file
        ]
        self.which = which  # Which of the agents that share the policy acts.

    def act(self, obs, mask=None):
        x = np.append(obs, self.which).astype(np.float32)
        if self.shift:
            x = np.clip((x - self.shift[0]) * self.shift[1], -10, 10)
        for weight, bias in self.layers[:-1]:
            x = self.activate(x @ weight + bias)
        logits = x @ self.layers[-1][0] + self.layers[-1][1]
        return int(np.argmax(logits if mask is None else np.where(mask, logits, -np.inf)))


def agents_of(path):
    """Return the policy of each agent of a team, by its name; a single agent's name is None."""
    file = np.load(path, allow_pickle=False)
    settings = json.loads(str(file["settings"]))
    if "team" not in settings:
        return {None: Policy(file, settings)}
    policies = {}
    for n, (name, member) in enumerate(settings["members"].items()):
        of = settings["policies"][name]
        for k in of:
            which = np.equal(of, k) if len(of) > 1 else ()
            policies[settings["team"]["agents"][k]] = Policy(file, member, f"{n}_", which)
    return policies


if __name__ == "__main__":
    import gymnasium

    env, policy = gymnasium.make("CartPole-v1"), agents_of(sys.argv[1])[None]
    (obs, _), total, ended = env.reset(seed=1), 0, False
    while not ended:
        obs, reward, terminated, truncated, _ = env.step(policy.act(obs))
        total, ended = total + reward, terminated or truncated
    print(total)

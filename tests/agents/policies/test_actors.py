from collections import Counter

import numpy as np

from workflow_rl.agents.policies.actors import MixedActor
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters


def always(action: int) -> NumpyPolicy:
    bias = np.where(np.arange(3) == action, 50, 0).astype(np.float32)
    return NumpyPolicy(PolicyParameters((np.zeros((2, 3), np.float32),), (bias,), "tanh"))


def test_an_episode_draws_one_of_several_actors_by_its_seed():
    actor, seen = MixedActor([always(0), always(2)], [3, 1]), np.zeros((1, 2), np.float32)

    def action(seed: int, env: int) -> int:
        actor.reset(seed, env)
        return int(actor.act(seen, [env])[0][0])

    drawn = Counter(action(seed, 0) for seed in range(200))
    assert set(drawn) == {0, 2}
    assert 130 < drawn[0] < 170
    assert [action(seed, 0) for seed in range(20)] == [action(seed, 7) for seed in range(20)]
    together = actor.act(np.zeros((8, 2), np.float32), [0, 7] * 4)
    assert together[0].tolist() == [action(19, 0)] * 8
    for seed in range(8):
        actor.reset(seed, seed)
    actions, log_probs = actor.act(np.zeros((8, 2), np.float32), range(8))
    assert actions.tolist() == [action(seed, 9) for seed in range(8)]
    assert (log_probs == 0).all()

"""PPO with complete episodes from worker processes, in one file, without this package.

It ends with the weights of the package's trainers, bit for bit, for any number of workers:

    python -m workflow_rl train-async --env CartPole-v1 --seed 0 --run-dir runs/cart-pole
    python examples/one_file.py --seed 0

The last line here is the SHA-256 of the weights, which `summary.json` of the run has, too. With
`--sync`, every step waits for all workers, as in `train-sync`.
"""

import argparse
import contextlib
import hashlib
import itertools
import math
import multiprocessing
import os
import time
from collections import namedtuple
from multiprocessing.connection import wait

# Libraries choose kernels by the processor, and each kernel rounds in its own way. These variables,
# which are read on import, choose the same kernels for every processor with AVX2.
os.environ |= {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "COMPATIBLE",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    "OPENBLAS_CORETYPE": "Haswell",
    "OPENBLAS_NUM_THREADS": "1",
}

import gymnasium
import numpy as np
import torch
from torch import nn

ENV = "CartPole-v1"
HIDDEN = (64, 64)
STEPS_PER_UPDATE, LEAST_EPISODES = 2048, 8
LEARNING_RATE, EPOCHS, MINIBATCH = 1e-3, 10, 256
DISCOUNT, LAMBDA, CLIP_RANGE = 0.99, 0.95, 0.2
VALUE_COEF, MAX_GRAD_NORM = 0.5, 0.5
LIMIT = np.float32(10)  # of normalised numbers
DEADLINE = 60.0  # seconds for which a worker may be silent


class Policy(namedtuple("Policy", ["weights", "biases", "mean", "scale"])):
    """The actor in NumPy: weights [in, out], biases [out], and what normalises observations [D]."""

    def seen(self, obs):
        """Return observations [N, D] shifted, scaled and clipped."""
        return np.minimum(np.maximum((obs - self.mean) * self.scale, -LIMIT), LIMIT)

    def act(self, obs, draws):
        """Return actions [N] for observations [N, D], and their log-probabilities, float32 [N].

        draws: uniform numbers [N], which choose the actions.
        """
        # Each row has a product of its own. One product of all rows would add up in another order
        # for another N, and the weights would depend on the number of workers.
        hidden = self.seen(obs)[:, None, :]
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = np.tanh(hidden @ weight + bias)
        outputs = (hidden @ self.weights[-1] + self.biases[-1])[:, 0, :]
        logits = outputs - outputs.max(axis=1, keepdims=True)
        cumulative = np.exp(logits).cumsum(axis=1)
        # float32 rounds a draw close below 1 up to 1, which would be past the last action.
        draws = np.minimum(draws.astype(np.float32), np.nextafter(np.float32(1), np.float32(0)))
        actions = (cumulative <= draws[:, None] * cumulative[:, -1:]).sum(axis=1)
        log_probs = logits - np.log(cumulative[:, -1:])
        return actions, log_probs[np.arange(len(obs)), actions]


# If an episode was truncated and not terminated, the value of last_obs stands for the rewards to
# come. Each step is an observation, an action, its log-probability and a reward.
Trajectory = namedtuple("Trajectory", ["number", "steps", "last_obs", "terminated"])


def begun(env, run_seed, number):
    """Play an episode: yield each observation and a uniform draw, to be sent the action and its
    log-probability. Return the trajectory."""
    # 0: of all episodes that the run's seed decides, those of training.
    seeds = np.random.SeedSequence([run_seed, 0, number]).generate_state(2)
    env_seed, action_seed = seeds.tolist()
    random = np.random.default_rng(action_seed)
    obs, _ = env.reset(seed=env_seed)
    steps = []
    terminated = truncated = False
    while not (terminated or truncated):
        action, log_prob = yield obs, random.random()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        steps.append((obs, action, log_prob, reward))
        obs = next_obs
    return Trajectory(number, steps, obs, terminated)


def work(pipe, others, run_seed):
    """Serve the main process: begin an episode, whose number is sent, or step it with the action
    and log-probability that are sent. With a policy, play the episode to its end."""
    for other in others:
        other.close()  # If no worker holds the main process's ends, `recv` tells of its end.
    env = gymnasium.make(ENV)
    with contextlib.suppress(EOFError):
        while True:
            policy, message = pipe.recv()
            start = time.perf_counter()
            if isinstance(message, int):
                episode, message = begun(env, run_seed, message), None
            try:
                answer = episode.send(message)
                while policy is not None:
                    obs, draw = answer
                    actions, log_probs = policy.act(obs[None], np.array([draw]))
                    answer = episode.send((actions[0], log_probs[0]))
            except StopIteration as end:
                answer = end.value
            pipe.send((time.perf_counter() - start, answer))


class Workers:
    """Worker processes, each at the end of a pipe. busy_seconds: what they spent on answers."""

    def __init__(self, n_workers, run_seed):
        self.busy_seconds = 0.0
        self.processes = {}  # by pipe
        for _ in range(n_workers):
            pipe, workers_end = multiprocessing.Pipe()
            args = workers_end, [*self.processes, pipe], run_seed
            self.processes[pipe] = multiprocessing.Process(target=work, args=args, daemon=True)
            self.processes[pipe].start()
            workers_end.close()

    def receive(self, pipe):
        """Return a worker's answer. Raise RuntimeError for a worker that is silent or has died."""
        process = self.processes[pipe]
        try:
            if not pipe.poll(DEADLINE):
                raise RuntimeError(f"{process.name} has not answered for {DEADLINE:.0f} s")
            seconds, answer = pipe.recv()
        except EOFError:
            process.join(1)
            raise RuntimeError(f"{process.name} ended with code {process.exitcode}") from None
        self.busy_seconds += seconds
        return answer


def collect(workers, policy, numbers, sync):
    """Play the episodes of these numbers. sync: act for all workers in one batch, and wait for all
    of them at each step. Otherwise an idle worker plays the next episode alone, to its end."""
    trajectories, busy, idle = [], [], list(workers.processes)
    while True:
        for pipe, number in zip(idle, numbers, strict=False):
            pipe.send((None if sync else policy, number))
            busy.append(pipe)
        if not busy:
            return trajectories
        ready = busy if sync else wait(busy, DEADLINE) or busy[:1]
        answers = {pipe: workers.receive(pipe) for pipe in ready}
        idle = [pipe for pipe, answer in answers.items() if isinstance(answer, Trajectory)]
        busy = [pipe for pipe in busy if pipe not in idle]
        trajectories += [answers.pop(pipe) for pipe in idle]
        if answers:
            obs, draws = map(np.array, zip(*answers.values(), strict=True))
            for pipe, *choice in zip(answers, *policy.act(obs, draws), strict=True):
                pipe.send((None, choice))


class Product(torch.autograd.Function):
    """x [B, in] times weight [out, in], and bias [out], by NumPy: pinned MKL is slow."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.from_numpy(x.detach().numpy() @ weight.detach().numpy().T) + bias

    @staticmethod
    def backward(ctx, grad):
        x, weight = (tensor.detach().numpy() for tensor in ctx.saved_tensors)
        of_x, of_weight = grad.numpy() @ weight, grad.numpy().T @ x
        return torch.from_numpy(of_x), torch.from_numpy(of_weight), grad.sum(0)


class Linear(nn.Linear):
    def forward(self, x):
        return Product.apply(x, self.weight, self.bias)


def network(sizes, last_gain, random):
    """Return a multilayer perceptron with orthogonal weights and zero biases."""
    layers = []
    for n_in, n_out in itertools.pairwise(sizes):
        layers += [Linear(n_in, n_out), nn.Tanh()]
        is_last = len(layers) == 2 * (len(sizes) - 1)
        nn.init.orthogonal_(layers[-2].weight, last_gain if is_last else 2**0.5, generator=random)
        nn.init.zeros_(layers[-2].bias)
    return nn.Sequential(*layers[:-1])


class Moments:
    """Running mean and variance of rows [B, D]: Chan et al. 1983, equations 2.1."""

    def __init__(self, size):
        self.count, self.mean, self.variance = 0, np.zeros(size), np.ones(size)

    def update(self, rows):
        n, total = len(rows), self.count + len(rows)
        mean, variance = rows.mean(axis=0, dtype=np.float64), rows.var(axis=0, dtype=np.float64)
        if self.count:
            delta = mean - self.mean
            between = np.square(delta) * self.count * n / total
            mean = self.mean + delta * n / total
            variance = (self.variance * self.count + variance * n + between) / total
        self.count, self.mean, self.variance = total, mean, variance

    def scale(self):
        return 1 / np.sqrt(self.variance + 1e-8)


def discounted(numbers, discount):
    """Return the sum of the numbers up to each, in which each step counts less for the later."""
    return np.array(list(itertools.accumulate(numbers, lambda total, x: discount * total + x)))


class Learner(nn.Module):
    """PPO (Schulman et al. 2017) with normalised observations and rewards."""

    def __init__(self, seed, n_inputs, n_actions):
        super().__init__()
        random = torch.Generator().manual_seed(seed)
        self.seed, self.n_updates = seed, 0
        self.actor = network((n_inputs, *HIDDEN, n_actions), 0.01, random)
        self.critic = network((n_inputs, *HIDDEN, 1), 1.0, random)
        self.optimizer = torch.optim.Adam(self.parameters(), eps=1e-5, fused=True)
        self.observations, self.returns = Moments(n_inputs), Moments(1)

    def policy(self):
        arrays = [part.detach().numpy().T.copy() for part in self.actor.parameters()]
        moments = self.observations.mean, self.observations.scale()
        return Policy(arrays[::2], arrays[1::2], *(part.astype(np.float32) for part in moments))

    def update(self, trajectories, progress):
        """Learn from a rollout. progress: the share of the run before it, from 0 to 1."""
        steps = [step for t in trajectories for step in t.steps]
        obs, action, log_prob, reward = map(np.array, zip(*steps, strict=True))
        action, log_prob = torch.from_numpy(action), torch.from_numpy(log_prob)
        seen = self.policy().seen(np.concatenate([obs, [t.last_obs for t in trajectories]]))
        seen = torch.from_numpy(seen)
        advantage, target = self.estimates(trajectories, reward, seen)
        self.optimizer.param_groups[0]["lr"] = LEARNING_RATE - progress * LEARNING_RATE
        shuffle = np.random.default_rng([self.seed, self.n_updates])
        for _ in range(EPOCHS):
            order = torch.from_numpy(shuffle.permutation(len(obs)))
            for rows in order.tensor_split(math.ceil(len(obs) / MINIBATCH)):
                self.optimizer.zero_grad()
                error = self.critic(seen[rows])[:, 0] - target[rows]
                (VALUE_COEF * 0.5 * error.square().mean()).backward()
                log_probs = torch.log_softmax(self.actor(seen[rows]), dim=-1)
                log_prob_now = log_probs.gather(1, action[rows, None])[:, 0]
                ratio = (log_prob_now - log_prob[rows]).exp()
                gain = advantage[rows] - advantage[rows].mean()
                gain = gain / (advantage[rows].std(correction=0) + 1e-8)
                clipped = ratio.clamp(1 - CLIP_RANGE, 1 + CLIP_RANGE)
                (-torch.min(ratio * gain, clipped * gain).mean()).backward()
                for part in (self.actor, self.critic):
                    nn.utils.clip_grad_norm_(part.parameters(), MAX_GRAD_NORM)
                self.optimizer.step()
        self.observations.update(obs)  # Only now: the policy that acted did not know them.
        self.n_updates += 1

    def estimates(self, trajectories, reward, seen):
        """Return advantages [B] (Schulman et al. 2016, equations 11 and 16), and the critic's
        targets [B]. seen: the observations that were acted on [B, D], then the last ones."""
        ends = np.cumsum([len(t.steps) for t in trajectories])
        rewards = np.split(reward, ends[:-1])
        self.returns.update(np.concatenate([discounted(r, DISCOUNT) for r in rewards])[:, None])
        with torch.no_grad():
            *values, last_values = np.split(self.critic(seen)[:, 0].double().numpy(), ends)
        advantages = []
        for t, reward, value, last in zip(trajectories, rewards, values, last_values, strict=True):
            scaled = np.clip(reward * self.returns.scale()[0], -LIMIT, LIMIT)
            next_value = np.append(value[1:], 0.0 if t.terminated else last)
            delta = scaled + DISCOUNT * next_value - value
            advantages.append(discounted(delta[::-1], DISCOUNT * LAMBDA)[::-1])
        advantage = torch.from_numpy(np.concatenate(advantages))
        return advantage.float(), (advantage + torch.from_numpy(np.concatenate(values))).float()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n-workers", type=int, default=2)
    parser.add_argument("--total-steps", type=int, default=100_000)
    parser.add_argument("--sync", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    workers = Workers(options.n_workers, options.seed)
    learner = Learner(options.seed, 4, 2)
    n_episodes, n_steps, length, start = 0, 0, 0.0, time.perf_counter()
    while n_steps < options.total_steps:
        size = max(LEAST_EPISODES, math.ceil(STEPS_PER_UPDATE / (length or math.inf)))
        numbers = iter(range(n_episodes, n_episodes + size))
        trajectories = collect(workers, learner.policy(), numbers, options.sync)
        trajectories.sort(key=lambda trajectory: trajectory.number)
        learner.update(trajectories, n_steps / options.total_steps)
        lengths = [len(trajectory.steps) for trajectory in trajectories]
        length = float(np.mean(lengths))
        n_episodes, n_steps = n_episodes + len(lengths), n_steps + sum(lengths)
        seconds = time.perf_counter() - start
        busy = workers.busy_seconds / (options.n_workers * seconds)
        rate = f"{n_episodes / seconds:.1f} episodes/s, workers {busy:.0%} busy"
        print(f"{n_steps} steps: mean return {length:.1f}, {rate}")
    digest = hashlib.sha256()
    for name, tensor in learner.state_dict().items():
        digest.update(f"{name} {tuple(tensor.shape)} ".encode() + tensor.numpy().tobytes())
    print(digest.hexdigest())


if __name__ == "__main__":
    main()

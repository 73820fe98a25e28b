"""Trains with a network of one's own.

python -m workflow_rl train-async --env CartPole-v1 --total-steps 4000 --run-dir runs/attention \
  --network examples.own_network:Attention --network-arg width=8
"""

import torch
from torch import nn


class Attention(nn.Module):
    """Reads each number of an observation as a token. The tokens attend to one another."""

    def __init__(self, n_inputs, n_outputs, width=16):
        super().__init__()
        self.meaning = nn.Parameter(torch.randn(n_inputs, width) / 4)
        self.value = nn.Parameter(torch.randn(n_inputs, width) / 4)
        self.asked = nn.Linear(width, 3 * width)
        self.hidden = nn.Linear(width, 32)
        self.outputs = nn.Linear(32, n_outputs)
        nn.init.zeros_(self.outputs.weight)

    def forward(self, obs):
        tokens = self.meaning + obs[:, :, None] * self.value
        query, key, value = self.asked(tokens).chunk(3, dim=2)
        weights = torch.softmax(query @ key.transpose(1, 2) / query.shape[2] ** 0.5, dim=2)
        pooled = (tokens + weights @ value).mean(dim=1)
        return self.outputs(torch.tanh(self.hidden(pooled)))

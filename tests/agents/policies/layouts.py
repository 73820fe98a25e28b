"""Layouts of images and of entities, and observations of them."""

from typing import Any

import numpy as np

from workflow_rl.agents.policies.convolutional import Image, ImageLayout
from workflow_rl.agents.policies.entity_layout import EntityLayout

GRID = ImageLayout(147, [Image(0, 7, 7, 3, False, 255.0)])
TWO = ImageLayout(
    3 + 5 * 6 * 2 + 4 * 4 + 1,
    [Image(3, 5, 6, 2, True, 255.0), Image(63, 4, 4, 1, False, 1.0)],
)
ATARI = ImageLayout(84 * 84 * 4, [Image(0, 84, 84, 4, True, 255.0)])


def bytes_of(layout: ImageLayout, n: int = 5) -> Any:
    return np.random.default_rng(0).integers(0, 256, (n, layout.n_inputs)).astype(np.uint8)


def entity_layout(n: int, actions: bool = True) -> EntityLayout:
    """Of n entities. An observation: one number of the whole; of each entity, whether it exists and
    two features; for each pair, whether an edge leads there. By the second relation each entity
    always hears of the first one. Actions: two of no entity, and two verbs."""
    rows = 1 + np.arange(3 * n).reshape(n, 3)
    edges = {
        "link": [[i, j, 1 + 3 * n + n * i + j] for i in range(n) for j in range(n)],
        "first": [[i, 0] for i in range(n)],
    }
    verbs = [(verb, entity) for verb in range(2) for entity in range(n)]
    tables = {"present": rows[:, 0], "features": rows[:, 1:], "edges": edges}
    n_inputs = 1 + 3 * n + n * n
    return EntityLayout(n_inputs, {**tables, "actions": [(0, -1), *verbs, (1, -1)] * actions})


def entities_seen(n: int, m: int = 5) -> Any:
    """Observations [m, D] of `entity_layout(n)`."""
    random = np.random.default_rng(0)
    entities = random.normal(size=(m, n, 3)).astype(np.float32)
    entities[:, :, 0] = np.arange(m * n).reshape(m, n) % 3 > 0
    edges = (random.random((m, n * n)) < 0.3).astype(np.float32)
    whole = random.normal(size=(m, 1)).astype(np.float32)
    return np.concatenate([whole, entities.reshape(m, -1), edges], axis=1)

"""The ids that guests have in Gymnasium's own registry."""

from __future__ import annotations

from workflow_rl.plug_ins import plug_ins


def register_envs() -> None:
    """Register what the entry points `workflow_rl.gymnasium` and `.gymnasium_vector` name with
    Gymnasium, unless it is registered. Imports Gymnasium, and nothing of a guest."""
    import gymnasium

    vectors = plug_ins("gymnasium_vector")
    for env_id, point in plug_ins("gymnasium").items():
        if env_id not in gymnasium.registry:
            vector = vectors[env_id].value if env_id in vectors else None
            gymnasium.register(env_id, entry_point=point.value, vector_entry_point=vector)

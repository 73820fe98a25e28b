from __future__ import annotations

from hypothesis import settings

# Time limits of single examples would fail at random on a busy machine.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

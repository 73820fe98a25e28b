from __future__ import annotations

from hypothesis import settings

import workflow_rl.portable  # noqa: F401  # Before any test loads NumPy.

# No time limits of single examples, which a busy machine exceeds; the same examples every time.
settings.register_profile("reproducible", deadline=None, derandomize=True)
settings.load_profile("reproducible")

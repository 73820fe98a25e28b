"""A harness that has faults strike real trainings; `make soak` for all of it, which takes hours."""

import pytest

pytest.register_assert_rewrite("tests.faults.checks")

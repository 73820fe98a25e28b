"""A harness that has faults strike real trainings: `make soak` for all of it, an hour."""

import pytest

pytest.register_assert_rewrite("tests.faults.checks")

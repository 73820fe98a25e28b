import pytest

pytest.register_assert_rewrite("tests.bad_input.refusals")

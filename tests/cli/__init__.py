import pytest

pytest.register_assert_rewrite("tests.cli.running")  # its assertions show what they compared

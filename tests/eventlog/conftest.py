"""Makes pytest explain the contract's assertions as it does those of test files."""

import pytest

pytest.register_assert_rewrite("tests.eventlog.contract", "tests.eventlog.erasure_contract")

"""Runs these tests for CTest, which reads 77 as skipped."""
import sys

try:
    import pytest
    import torch  # noqa: F401
except ImportError as error:
    print(f"skipped: the Python tests need {error.name}: install python/requirements-test.txt (./fovea.sh test does)")
    sys.exit(77)
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-rs", *sys.argv[1:]]))

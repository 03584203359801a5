import os
import sys
import tempfile
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the package of this clone, installed or not
# The user's cache holds code that torch.compile made for another build, whose operators may have other arguments.
compiled = tempfile.TemporaryDirectory(prefix="fovea-compiled-")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = compiled.name
if "stand_in_device" in os.environ.get("LD_PRELOAD", ""):  # this torch has no CUDA to start
    torch.cuda._lazy_init = lambda: None
    torch.version.cuda = "0"
torch.set_num_threads(1)  # small problems: threads would only wait for one another


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(20)

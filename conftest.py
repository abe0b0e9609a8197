"""What can be run here: modules for GPUs need PyTorch and Triton (`make test-torch`), some tests Linux."""

import os
import sys
from importlib.util import find_spec

collect_ignore_glob = []
if find_spec("torch") is None:
    collect_ignore_glob.append("src/evenhand/*/torch_*.py")
if find_spec("torch") is None or find_spec("triton") is None:
    collect_ignore_glob.append("src/evenhand/*/triton_*.py")

# These measure memory as the kernel of Linux tells it, or set limits that others do not keep.
OF_LINUX = ["test_modelfile_memory", "test_fuzz", "test_fuzz_model_files"]
# And these send signals, name pipes and set limits in ways that Windows does not have.
OF_UNIX = ["test_checkpoints", "test_cli_errors", "test_cold_start", "test_outputs", "test_reproduction"]
left_out = OF_LINUX if sys.platform != "linux" else []
left_out += OF_UNIX if os.name == "nt" else []
collect_ignore = [f"tests/{name}.py" for name in left_out]

"""Which modules have doctests to run here: those for GPUs need PyTorch and Triton (`make test-torch`)."""

from importlib.util import find_spec

collect_ignore_glob = []
if find_spec("torch") is None:
    collect_ignore_glob.append("src/evenhand/*/torch_*.py")
if find_spec("torch") is None or find_spec("triton") is None:
    collect_ignore_glob.append("src/evenhand/*/triton_*.py")

"""A clear error for a missing extra."""

import importlib
from types import ModuleType


def import_optional(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import `module`, or say which extra brings it.

    >>> import_optional("json", extra="io", purpose="reading settings").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{purpose} needs {module!r}, which is not installed. Run: pip install 'evenhand[{extra}]'"
        ) from error

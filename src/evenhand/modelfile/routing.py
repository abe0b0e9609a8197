"""What a model asks of scikit-learn's metadata routing (`set_fit_request` and its like), as plain JSON."""

from typing import Any

from evenhand.modelfile.errors import ModelFileError

ATTRIBUTE = "_metadata_request"  # where scikit-learn keeps it


def plain_requests(requests: Any) -> dict[str, dict[str, Any]]:
    """`{method: {parameter: request}}`."""
    return {name: dict(getattr(requests, name).requests) for name in _methods(requests)}


def restore_requests(model: Any, stored: Any, where: str) -> None:
    """Ask again, as `set_fit_request` does."""
    requests = model._get_metadata_request()
    if not isinstance(stored, dict) or not set(stored) <= set(_methods(requests)):
        raise ModelFileError(f"{where} has requests of methods that it does not have.")
    for method, asked in stored.items():
        if not isinstance(asked, dict):
            raise ModelFileError(f"{where} has requests that are none.")
        for parameter, alias in asked.items():
            try:
                getattr(requests, method).add_request(param=parameter, alias=alias)
            except (TypeError, ValueError) as error:
                raise ModelFileError(f"{where} has requests that are none: {error}") from error
    setattr(model, ATTRIBUTE, requests)


def _methods(requests: Any) -> list[str]:
    return [name for name, part in vars(requests).items() if hasattr(part, "add_request")]

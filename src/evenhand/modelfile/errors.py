"""What can be wrong with a model file."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType


class ModelFileError(ValueError):
    """The file cannot be read as a model: damaged, not a model file, too new, or not what it claims."""


class UntrustedTypesError(ModelFileError):
    """The file asks for types that nobody has vouched for; `types` holds their names."""

    def __init__(self, types: Iterable[str], reasons: Mapping[str, str] = MappingProxyType({})) -> None:
        self.types = tuple(sorted(types))
        notes = [f"{name}: {reasons[name]}" for name in self.types if name in reasons]
        super().__init__(
            "\n".join(
                [
                    "The file holds types that are not trusted: " + ", ".join(self.types) + ". Nothing of it "
                    "was built. If you know where the file comes from and expect these types in it, name "
                    f"them: load(path, trusted={list(self.types)}).",
                    *notes,
                ]
            )
        )

    def __reduce__(self) -> tuple[type["UntrustedTypesError"], tuple[tuple[str, ...]]]:
        return type(self), (self.types,)

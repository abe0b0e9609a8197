"""A model in one file that never runs code when it is opened (docs/reference/model-file.md).

>>> import tempfile, pathlib, numpy as np
>>> from evenhand import ParityPostprocessor
>>> from evenhand.modelfile import load, save
>>> scores, proba = np.linspace(0, 1, 50), np.tile([[0.8, 0.2], [0.3, 0.7]], (25, 1))
>>> model = ParityPostprocessor(epsilon=0.1).fit(scores, proba)
>>> with tempfile.TemporaryDirectory() as folder:
...     path = pathlib.Path(folder, "model.evenhand")
...     save(model, path)
...     again = load(path)
>>> bool((again.predict(scores, proba) == model.predict(scores, proba)).all())
True
"""

from evenhand import baselines, estimators
from evenhand._utils.stored import Stored
from evenhand.modelfile.errors import ModelFileError, UntrustedTypesError
from evenhand.modelfile.saving import FORMAT_VERSION, is_model_file, load, save

__all__ = [
    "FORMAT_VERSION",
    "ModelFileError",
    "Stored",
    "UntrustedTypesError",
    "is_model_file",
    "load",
    "save",
]

# A file names its classes, and only those that are defined already are found: these packages define ours.
_HOMES_OF_CLASSES = baselines, estimators

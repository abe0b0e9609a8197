"""Write the model file that later versions have to read: `python -m tests.golden.model_file FILE.evenhand`.

The file is written anew when the file format changes, and not otherwise.
"""

import sys

import evenhand as eh


def fit_step() -> eh.ParityPostprocessor:
    """A post-processor whose tolerance was chosen for new data."""
    rows = eh.datasets.make_population(400, n_groups=3, random_state=20)
    step = eh.ParityPostprocessor(random_state=3)
    return step.fit(rows.scores, rows.group_proba, sensitive_features=rows.sensitive_features)


if __name__ == "__main__":
    eh.save(fit_step(), sys.argv[1])

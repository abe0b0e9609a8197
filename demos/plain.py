"""Fit and predict with nothing installed but evenhand itself; CI runs it after a bare `pip install .`."""

import numpy as np

import evenhand as eh


def main() -> None:
    data = eh.datasets.make_population(600, n_groups=2, random_state=0)
    model = eh.ParityRegressor().fit(data.data, data.target, sensitive_features=data.sensitive_features)
    answers = model.predict(data.data)
    assert np.array_equal(answers, model.predict(data.data))
    step = eh.ParityPostprocessor().fit(data.scores, data.group_proba)
    eh.save(step, "step.evenhand")
    again = eh.load("step.evenhand")
    assert np.array_equal(
        again.predict(data.scores, data.group_proba), step.predict(data.scores, data.group_proba)
    )
    print(f"evenhand {eh.__version__} fits, predicts, saves and loads without any extra.")


if __name__ == "__main__":
    main()

"""Folds of the models: every group, and every class in every group, is there to learn from."""

import numpy as np
import pytest
from sklearn.model_selection import PredefinedSplit

from evenhand import ParityClassifier
from evenhand.datasets import make_class_population
from evenhand.exceptions import IndependenceWarning

DATA = make_class_population(600, n_groups=2, n_classes=2, random_state=0)
X, Y, S = DATA.data, DATA.target, DATA.sensitive_features


def splitter_without(pair):
    """Two folds; all rows of one pair of class and group are scored in the second."""
    folds = np.arange(len(Y)) % 2
    folds[(pair[0] == Y) & (pair[1] == S)] = 1
    return PredefinedSplit(folds)


@pytest.mark.parametrize("pair", [(0, 1), (1, 0)])
@pytest.mark.parametrize("aware", [False, True])
def test_a_fold_without_rows_of_a_group_in_a_class_is_refused_where_both_are_learned_together(pair, aware):
    model = ParityClassifier(criterion="equalized_odds", cv=splitter_without(pair), aware=aware)
    with pytest.raises(
        ValueError, match=rf"no row of \(class, group\) \({pair[0]}, {pair[1]}\) .* in fold 1"
    ):
        model.fit(X, Y, sensitive_features=S)
    assert not hasattr(model, "postprocessor_")


def test_the_ways_out_of_such_a_fold_work():
    model = ParityClassifier(criterion="equalized_odds", cv=splitter_without((0, 1)), epsilon=0.1)
    with pytest.warns(IndependenceWarning):
        model.set_params(joint="product").fit(X, Y, sensitive_features=S)
    model.set_params(joint="classifier", cv=None).fit(X, Y, sensitive_features=S)
    model.set_params(criterion="demographic_parity", cv=splitter_without((0, 1)))
    model.fit(X, Y, sensitive_features=S)  # which learns the group alone


def test_a_pair_of_class_and_group_with_one_row_cannot_be_learned_across_folds():
    kept = (Y != 0) | (S != 1)
    kept[np.flatnonzero(~kept)[0]] = True
    model = ParityClassifier(criterion="equal_opportunity", pos_label=1)
    with pytest.raises(ValueError, match=r'no row of \(class, group\) \(0, 1\) .*joint="product"'):
        model.fit(X[kept], Y[kept], sensitive_features=S[kept])

"""Predictions for tensors: the methods of a post-processor, answered on the device that the rows are on."""

from collections.abc import Callable
from typing import Any

from evenhand._utils.tensor_rows import check_tensors_of
from evenhand._utils.tensors import import_torch, is_tensor, like
from evenhand._utils.validation import Labels, check_levels
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.estimators.draws import GRID, ROW_TAG, HashArray, RandomState, choose_uniforms
from evenhand.estimators.placing import policy_of, stays_on_device


def predict_tensors(
    policy: SoftmaxPolicy,
    groups: Labels,
    scores: Any,
    group_proba: Any,
    ask: Callable[[Any], Any],
    ask_arrays: Callable[[Any, Any], Any],
) -> Any:
    """What `ask` gets from the policy on the rows' device, as an array of the library that they are of.

    Costs that are functions of arrays have no form there: `ask_arrays` gets the rows in memory, and its
    answer goes back.
    """
    rows = check_tensors_of(scores, group_proba, groups, policy.strata, policy.cost.n_classes)
    if stays_on_device(policy.cost):
        return like(scores, ask(policy_of(policy, rows)))
    found = rows.in_memory()
    answer = import_torch().from_numpy(ask_arrays(found.scores, found.group_proba))
    return like(scores, answer.to(rows.device, rows.scores.dtype))


def draw(policy: Any, key: HashArray, random_state: RandomState, ids: Any) -> Any:
    """An atom for each row: by the keyed hash of the row, the same as for arrays, unless asked otherwise."""
    if random_state is None and ids is None:
        uniforms = policy.uniforms((int(key[0]), int(key[1])), ROW_TAG, GRID)
    else:
        n_rows = policy.rows.n_rows
        uniforms = choose_uniforms(n_rows, key, random_state, in_memory(ids), lambda: None)  # type: ignore[arg-type, return-value]
    return policy.quantile(uniforms)


def quantile(policy: Any, q: Any) -> Any:
    """The quantile of each row."""
    return policy.quantile(check_levels(in_memory(q), policy.rows.n_rows))


def in_memory(values: Any) -> Any:
    """Tensors as arrays in memory; all else as it is."""
    if not is_tensor(values):
        return values
    torch = import_torch()
    tensor = values if isinstance(values, torch.Tensor) else torch.from_dlpack(values)
    return tensor.detach().cpu().numpy()

"""What can be proved of a fitted policy, in several kinds.

| kind | function | speaks of |
| --- | --- | --- |
| optimisation | `certify` | the rows of the fit, their given scores and group probabilities |
| held-out | `certify_held_out` | the population, with probability 1 - delta over held-out rows |
| held-out choice | `certify_sequence` | the last of several predictors that such rows prove safe |
| held-out and a pile | `certify_prediction_powered` | the population, at a level for many rows |
| plug-in | `certify_plugin` | what errors of the scores and of the group probabilities can add |
"""

from evenhand.certificates.heldout import HeldOutCertificate, certify_held_out
from evenhand.certificates.optimisation import Certificate, PolicyMeasures, certify, measure_policy
from evenhand.certificates.out_of_sample import OutOfSample
from evenhand.certificates.plugin import PluginCertificate, certify_plugin
from evenhand.certificates.powered import certify_prediction_powered
from evenhand.certificates.sequence import SequenceCertificate, certify_sequence

__all__ = [
    "Certificate",
    "HeldOutCertificate",
    "OutOfSample",
    "PluginCertificate",
    "PolicyMeasures",
    "SequenceCertificate",
    "certify",
    "certify_held_out",
    "certify_plugin",
    "certify_prediction_powered",
    "certify_sequence",
    "measure_policy",
]

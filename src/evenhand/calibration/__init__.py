"""Calibration of the group probabilities: mend them, and say what is left and what it costs in parity.

Post-processing trusts `tau_s(x) = P(S = s | x)`. A classifier that is too sure of itself makes a policy
that is at parity on paper only. Both halves here need rows whose group is known and that the classifier
was not fitted on.
"""

from evenhand.calibration.diagnosis import CalibrationDiagnosis, diagnose_calibration
from evenhand.calibration.maps import METHODS, Calibrator, fit_calibrator

__all__ = ["METHODS", "CalibrationDiagnosis", "Calibrator", "diagnose_calibration", "fit_calibrator"]

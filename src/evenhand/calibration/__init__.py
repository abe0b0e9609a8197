"""Calibration of the group probabilities: mend them, and say what is left and what it costs in parity.

Post-processing trusts `tau_s(x) = P(S = s | x)`. A classifier that is too sure of itself makes a policy
that is at parity on paper only. Both halves here need rows whose group is known and that the classifier
was not fitted on. Since a policy sees a row through its score and tau alone, it is best served by the outcome
and the group given both: "joint" mends both models towards that.
"""

from evenhand.calibration.diagnosis import CalibrationDiagnosis, diagnose_calibration
from evenhand.calibration.joint import JOINT, JointCalibrator, JointFit, JointRows, joint_inputs
from evenhand.calibration.maps import METHODS, Calibrator, fit_calibrator

CALIBRATIONS = (*METHODS, JOINT)  # names that an estimator takes

__all__ = [
    "CALIBRATIONS",
    "JOINT",
    "METHODS",
    "CalibrationDiagnosis",
    "Calibrator",
    "JointCalibrator",
    "JointFit",
    "JointRows",
    "diagnose_calibration",
    "fit_calibrator",
    "joint_inputs",
]

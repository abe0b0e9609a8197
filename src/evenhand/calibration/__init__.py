"""Calibration of group probabilities: recalibrate them, and measure how much their errors affect parity.

Post-processing relies on `tau_s(x) = P(S = s | x)`. With an overconfident classifier parity holds only
according to these probabilities. Diagnosis and recalibration need rows with known group that the classifier
was not fitted on. A policy uses a row only through its score and tau, so it needs the expected outcome and
the group probabilities given both. Joint recalibration estimates these.
"""

from evenhand.calibration.diagnosis import CalibrationDiagnosis, diagnose_calibration
from evenhand.calibration.joint import JOINT, JointCalibrator, JointFit, JointRows, joint_inputs

__all__ = [
    "JOINT",
    "CalibrationDiagnosis",
    "JointCalibrator",
    "JointFit",
    "JointRows",
    "diagnose_calibration",
    "joint_inputs",
]

"""The terms of the equation: parity, imbalance, cost and grid make a problem, and multipliers a policy."""

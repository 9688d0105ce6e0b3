"""Errors from mathematics alone: the expected MSE_avg of a protocol, and what a collection needs."""

from gpu_rsfd.theory.expected import expected_mse
from gpu_rsfd.theory.needs import PlanRow, bits_per_user, plan_table

__all__ = ["PlanRow", "bits_per_user", "expected_mse", "plan_table"]

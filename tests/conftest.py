"""Fixtures that several rooms' tests share."""

from cuda_standin import no_cupy, standin  # noqa: F401

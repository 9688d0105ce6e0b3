"""Backends turn a plan, a data set and a seed into integer counts.  All of them give the same integers."""

"""Simulation on a Dask cluster: tasks go to its workers, counts come back to the one process that writes.

A worker with a resource GPU uses CuPy, every other one C or NumPy in one thread: the integers are the same.
Nothing here schedules: which worker does what, and what a lost one had, is Dask's affair.
"""

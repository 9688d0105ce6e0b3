"""Every user on CUDA devices, with CuPy."""

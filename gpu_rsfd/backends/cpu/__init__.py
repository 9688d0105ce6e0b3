"""Every user on the CPU, 64 at a time, with NumPy."""

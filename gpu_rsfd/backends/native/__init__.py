"""Every user on the CPU, with C code that the machine's own compiler makes on first use; the integers of NumPy."""

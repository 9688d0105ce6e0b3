"""How a measurement is run: `collect` is the loop, `experiments` the public functions."""

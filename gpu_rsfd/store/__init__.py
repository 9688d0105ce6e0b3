"""What is on disk: `journal` grows while a run goes on, `hdf5` is the results file, `contents` is both together."""

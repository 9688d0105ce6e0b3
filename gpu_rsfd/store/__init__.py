"""The results file: `hdf5` its layout, `reading` what it holds, `files` how it is written."""

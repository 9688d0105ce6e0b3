"""The data sets of the paper: from their rules, their published counts or their original files."""

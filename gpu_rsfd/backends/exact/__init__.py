"""Counts without users, drawn from their exact distribution: `samplers` are backends, too."""

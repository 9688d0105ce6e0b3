"""Counts without users, drawn from their exact law: `samplers` are backends, too."""

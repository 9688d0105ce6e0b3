"""Users' tables: files of values or of codes."""

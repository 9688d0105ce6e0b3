"""Tables of one's own: files of values or of codes."""

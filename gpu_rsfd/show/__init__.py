"""Results for people: statistics, tables, figures."""

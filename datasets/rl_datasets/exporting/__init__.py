"""Data sets in other projects' formats: a module a format, found by its name, with `write` (see rl_datasets/exporting/exporter.py)."""

"""The report: results.py reads the artifacts, charts.py draws them, page.py lays them out. None of it writes a file."""

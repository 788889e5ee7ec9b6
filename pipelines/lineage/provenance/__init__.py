"""Where things came from, as one graph of artifacts, runs, code, parameters, commits and people, and the forms that it is shown in."""

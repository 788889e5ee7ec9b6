"""One algorithm a file, each a module with `Params` and `Learner` (see trainer/learner.py), found by its name."""

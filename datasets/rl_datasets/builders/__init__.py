"""One file a source of episodes, each a module with `Options` and `Builder` (see rl_datasets/builder.py), found by its name."""

"""Commands of `hindcast` that add to a project: look at a file, write an entry, hand a data set on. `pipelines.cli` names them."""

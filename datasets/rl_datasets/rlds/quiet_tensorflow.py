"""TensorFlow and TFDS, imported in one place: on the CPU only, quickly, and without the notices of a normal start.

Warnings and errors of TensorFlow still reach the terminal. A value that the user has set in the environment stands.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # notices off, warnings on
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # its notice ignores the level above; nothing here multiplies matrices


@contextmanager
def _absent(*names: str) -> Iterator[None]:
    """Packages that are not imported yet cannot be meanwhile; afterwards they can."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


# TensorFlow goes without these where they are missing. Nothing here uses them through it, and they take half of a process's start.
with _absent("keras", "jax"):
    import tensorflow as tf
    import tensorflow_datasets as tfds

# The one deprecated function in use reads a file of records at a sixth of the cost of a tf.data pipeline.
logging.getLogger("tensorflow").addFilter(lambda record: "tf_record_iterator" not in record.getMessage())
tf.config.set_visible_devices([], "GPU")  # the learner's device is not for reading files

__all__ = ["tf", "tfds"]

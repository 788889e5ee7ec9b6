"""`Leaf`: one array of the steps, with its name."""

import math
from dataclasses import dataclass

import numpy as np

from rl_datasets.schema import ArraySpec

NARROW = 256  # elements; a wider array, an image say, is looked at as a whole


@dataclass(frozen=True)
class Leaf:
    """One array's spec with its name."""

    name: str
    spec: ArraySpec

    @property
    def size(self) -> int:
        return math.prod(self.spec.shape)

    def column(self, element: int) -> str:
        """Returns the name of an element, given in C order."""
        return f"{self.name}{self.spec.subscript(element)}"

    @property
    def is_float(self) -> bool:
        return np.dtype(self.spec.dtype).kind == "f"

    @property
    def is_narrow(self) -> bool:
        """Whether its columns are looked at one by one."""
        return self.size <= NARROW

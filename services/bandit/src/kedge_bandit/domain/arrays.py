"""Name the array types of the domain. The last axis is the canonical action order unless a docstring says so."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

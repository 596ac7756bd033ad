"""Writes reference.safetensors with the reference implementation: pip install safetensors numpy."""

import os

import numpy
from safetensors.numpy import save_file

save_file(
    {
        "bool": numpy.array([True, False, True]),
        "f32": numpy.array([[1.5, -2.0, 0.25], [numpy.inf, 1e-45, 3e38]], numpy.float32),
        "f64": numpy.array(0.1, numpy.float64),
        "i32": numpy.array([-(2**31), 2**31 - 1], numpy.int32),
        "i64": numpy.array([[-(2**63)], [2**63 - 1]], numpy.int64),
        "nothing": numpy.zeros((3, 0), numpy.float32),
        "u8": numpy.array([0, 127, 255], numpy.uint8),
    },
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "reference.safetensors"),
    metadata={"format": "np", "ü": "naïve \"quotes\""},
)

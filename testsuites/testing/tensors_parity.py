"""Writes pairs of tensors with Python's verdict on each, as JSON: what tensors_parity_test.cc reads.

Edge values of every dtype are compared with one another, and random values with errors of several multiples of the
tolerance.  Errors at the bound itself are left out: rounding decides those.
"""

import itertools
import json

import torch
from torch.testing._comparison import default_tolerances

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
INTEGERS = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def is_close(actual, expected, tolerance, equal_nan):
    rtol, atol = tolerance or (None, None)
    try:
        torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)
    except AssertionError:
        return False
    return True


def pair(actual, expected, tolerance=None, equal_nan=False):
    return {
        "dtype": str(actual.dtype).removeprefix("torch."),
        "shape": list(actual.shape),
        "actual": actual.contiguous().view(-1).view(torch.uint8).tolist(),
        "expected": expected.contiguous().view(-1).view(torch.uint8).tolist(),
        "tolerance": tolerance,
        "equal_nan": equal_nan,
        "close": is_close(actual, expected, tolerance, equal_nan),
    }


def edge_values(dtype):
    if dtype == torch.bool:
        return [False, True]
    if dtype in INTEGERS:
        info = torch.iinfo(dtype)
        return [info.min, info.max, info.max - 1, 0, 1]
    info = torch.finfo(dtype)
    floats = [0.0, -0.0, 1.0, info.max, info.min, info.tiny, 1e-6, float("inf"), -float("inf"), float("nan")]
    if dtype in COMPLEX:
        return [complex(x, y) for x, y in itertools.product([0.0, *floats[6:]], [-0.0, *floats[8:]])]
    return floats


def edge_pairs():
    for dtype in FLOATS + COMPLEX + INTEGERS:
        for a, b in itertools.product(edge_values(dtype), repeat=2):
            for equal_nan in [False, True] if a != a or b != b else [False]:
                yield pair(torch.tensor([a], dtype=dtype), torch.tensor([b], dtype=dtype), None, equal_nan)


def random_pairs():
    generator = torch.Generator().manual_seed(1234)
    for dtype in FLOATS + COMPLEX:
        for tolerance in [None, [0.0, 0.0], [1e-2, 0.0], [0.0, 0.25], [0.125, 0.5]]:
            rtol, atol = tolerance or default_tolerances(dtype)
            for factor in [0.0, 0.2, 0.8, 1.25, 5.0]:
                expected = torch.randn(2, 3, dtype=torch.complex128 if dtype in COMPLEX else torch.float64,
                                       generator=generator) * 10
                expected = expected.to(dtype)
                actual = (expected.to(torch.complex128) + factor * (atol + rtol * expected.to(torch.complex128).abs()))
                actual = (actual if dtype in COMPLEX else actual.real).to(dtype)
                if is_clear(actual, expected, rtol, atol):
                    yield pair(actual, expected, tolerance)


def is_clear(actual, expected, rtol, atol):
    wide = torch.complex128
    error = (actual.to(wide) - expected.to(wide)).abs()
    allowed = atol + rtol * expected.to(wide).abs()
    return bool(((error == 0) | ((error - allowed).abs() > allowed * 0.05)).all())


if __name__ == "__main__":
    print(json.dumps([*edge_pairs(), *random_pairs()]))

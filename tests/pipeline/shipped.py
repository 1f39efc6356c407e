"""What a worker can tell about the package it was given."""

from __future__ import annotations

from epicast.experiments.model import Row


def use_a_kernel() -> Row:
    """Which of five keys start with "ab"; whether the kernel had to be compiled for that."""
    import numpy as np

    import epicast
    from epicast.log.kernels import compiling, predicates

    keys = [b"abc", b"acd", b"ab", b"abx", b"a"]
    lengths = np.array([len(key) for key in keys], np.int64)
    answers = np.zeros(len(keys), np.bool_)
    predicates.has_prefix(
        np.frombuffer(b"".join(keys), np.uint8),
        np.cumsum(lengths) - lengths,
        lengths,
        np.frombuffer(b"ab", np.uint8),
        answers,
    )
    statistics = getattr(predicates.has_prefix, "stats", None)
    return {
        "package": str(epicast.__file__),
        "answers": "".join(str(int(answer)) for answer in answers),
        "directory": compiling.cache_directory(),
        "compiled": not getattr(statistics, "cache_hits", None),
    }

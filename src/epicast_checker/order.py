"""Whether the events of each publisher are in the stream in the order it has sent them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epicast_checker.spilling import Records


def files_of_numbers(records: Records, files: int, most: int) -> NDArray[np.uint16]:
    """Ascending numbers go to ascending files."""
    per_file = np.uint64(max(1, -(-(most + 1) // files)))
    return (records["number"] // per_file).astype(np.uint16)


class Order:
    """Takes the files one after the other."""

    def __init__(self) -> None:
        self._highest: dict[tuple[int, int], int] = {}
        self.misordered: dict[int, int] = {}
        """By stream."""

    def take(self, records: Records) -> None:
        if not len(records):
            return
        order = np.lexsort((records["number"], records["publisher"], records["stream"]))
        records = records[order]
        who = (records["stream"].astype(np.uint64) << np.uint64(32)) | records["publisher"]
        starts = np.flatnonzero(np.append(True, who[1:] != who[:-1]))
        for low, high in zip(starts.tolist(), [*starts[1:].tolist(), len(records)], strict=True):
            stream, publisher = int(records["stream"][low]), int(records["publisher"][low])
            seqs = records["seq"][low:high]
            before = self._highest.get((stream, publisher), 0)
            reach = np.maximum.accumulate(np.append(np.uint64(before), seqs))
            wrong = int((seqs < reach[:-1]).sum())
            self.misordered[stream] = self.misordered.get(stream, 0) + wrong
            self._highest[stream, publisher] = int(reach[-1])

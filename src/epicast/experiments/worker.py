"""A worker process: takes tasks from a pipe, runs them, sends the outcomes back.

Imports nothing heavy itself: the thread counts below must be set before numpy is loaded, which
happens when the first task is unpickled.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import traceback
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from typing import Any

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
"""One thread per worker: the workers fill the cores, and sums do not depend on how they are cut."""


def work(connection: Connection[Any, Any]) -> None:
    """Serve until the other end closes or sends None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    threading.Thread(target=_die_with_parent, daemon=True).start()
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")
    while True:
        try:
            request: tuple[str, bytes] | None = connection.recv()
        except EOFError:
            return
        if request is None:
            return
        connection.send(_answer(*request))


def _answer(key: str, pickled: bytes) -> Any:
    from epicast.experiments.tasks import Outcome, execute

    try:
        task = pickle.loads(pickled)
    except Exception:
        return Outcome(key, [], traceback.format_exc())
    return execute(task)


def _die_with_parent() -> None:
    """A killed parent cannot tell its workers; they would finish their runs for nobody."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)

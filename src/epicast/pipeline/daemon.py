"""PySpark's daemon, which forks the worker processes, without a traceback for each of them that has
had nothing to do for a minute and is let go: `python -m epicast.pipeline.daemon`."""

from __future__ import annotations

import os
from typing import Any

from pyspark import daemon


def main() -> None:
    module: Any = daemon
    work = module.worker

    def work_until_let_go(*arguments: Any) -> Any:
        try:
            return work(*arguments)
        except BrokenPipeError:  # who gave the work has closed the connection
            os._exit(0)

    module.worker = work_until_let_go
    module.manager()


if __name__ == "__main__":
    main()

"""Log lines of services: for people, or one JSON object per line for machines."""

from __future__ import annotations

import json
import logging
import sys
from typing import Literal

from epicast.core.printable import printable

LogFormat = Literal["text", "json"]
_OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


class TextLines(logging.Formatter):
    """Messages carry names and reasons that peers gave; a terminal must not obey them."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), keep="\n\t")


class JsonLines(logging.Formatter):
    """Whatever was passed as `extra` becomes a field of its own."""

    def __init__(self, **fields: object) -> None:
        super().__init__()
        self._fields = fields

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            **self._fields,
            "message": record.getMessage(),
        }
        line.update((k, v) for k, v in record.__dict__.items() if k not in _OWN)
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure_logs(form: LogFormat, level: str, **fields: object) -> None:
    """To stderr. `fields` say who is talking, such as the region."""
    handler = logging.StreamHandler(sys.stderr)
    if form == "json":
        handler.setFormatter(JsonLines(**fields))
    else:
        who = "".join(f" {value}" for value in fields.values())
        handler.setFormatter(TextLines(f"%(asctime)s %(levelname)s{who}: %(message)s"))
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)

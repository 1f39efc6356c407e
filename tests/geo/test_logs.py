"""Log lines that machines can read."""

import json
import logging
from collections.abc import Iterator

import pytest

from epicast.geo.logs import configure_logs


@pytest.fixture(autouse=True)
def unchanged_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def test_json_lines_carry_who_and_what(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "info", region="us")
    log = logging.getLogger("epicast.test")
    log.info("stream %d was cut", 7, extra={"stream": 7})
    log.debug("not worth it")
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("it failed")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert first["message"] == "stream 7 was cut" and first["level"] == "info"
    assert first["region"] == "us" and first["stream"] == 7 and first["logger"] == "epicast.test"
    assert isinstance(first["time"], float)
    assert "ValueError: broken" in second["error"] and second["level"] == "error"


def test_text_lines_are_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text", "warning", region="us")
    logging.getLogger("epicast.test").warning("look %s", "here")
    assert capsys.readouterr().err.rstrip().endswith("WARNING us: look here")

"""Progress away from a terminal: few lines, and always the last one."""

from io import StringIO

from epicast.cli.progress import Progress


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_come_every_ten_seconds_and_at_the_end() -> None:
    now = 0.0
    stream = StringIO()
    with Progress("work", stream=stream, clock=lambda: now) as progress:
        progress.begin(40)
        for step in range(40):
            now += 1
            progress.advance(failed=step == 5)
    assert stream.getvalue().splitlines() == [
        "work: 10 of 40 done, 1 failed, about 30 s left",
        "work: 20 of 40 done, 1 failed, about 20 s left",
        "work: 30 of 40 done, 1 failed, about 10 s left",
        "work: 40 of 40 done, 1 failed in 40.0 s",
    ]


def test_a_terminal_gets_a_bar() -> None:
    stream = Terminal()
    with Progress("work [a]", stream=stream) as progress:
        progress.begin(3)
        for step in range(3):
            progress.advance(failed=step == 1)
    assert "work [a] (1 failed)" in stream.getvalue()
    assert "3/3" in stream.getvalue()


def test_nothing_to_do_says_nothing() -> None:
    stream = StringIO()
    with Progress("work", stream=stream) as progress:
        progress.begin(0)
    assert stream.getvalue() == ""

"""Every block of code in docs/client.md runs, every example runs, and every name is shown."""

import asyncio
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import epicast
from tests.client.test_sync import proxy_in_a_thread

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
EXAMPLES = sorted((ROOT / "examples").glob("client_*.py"))
SHOWN_ADDRESS = "epicast://127.0.0.1:7400"


@pytest.mark.parametrize("code", BLOCKS, ids=range(len(BLOCKS)))
def test_the_page_runs(code: str) -> None:
    names: dict[str, object] = {"epicast": epicast}
    with proxy_in_a_thread() as proxy:
        code = code.replace(SHOWN_ADDRESS, proxy.address)
        if re.search(r"^(async|.*\bawait\b)", code, re.MULTILINE) and "epicast.run(" not in code:
            body = "async def block():\n" + textwrap.indent(code, "    ")
            exec(compile(body, "docs/client.md", "exec"), names)
            asyncio.run(asyncio.wait_for(names["block"](), 60))  # type: ignore[operator]
        else:
            exec(compile(code, "docs/client.md", "exec"), names)


def test_every_public_name_is_shown() -> None:
    code = "\n".join(BLOCKS)
    names = set(epicast.__all__) - {"sync", "Node", "AgentConfig"}
    assert {name for name in names if f"epicast.{name}" not in code} == set()
    assert "from epicast import sync" in code
    assert epicast.connect.__doc__ and all(getattr(epicast, name) for name in epicast.__all__)


def test_there_is_nothing_else() -> None:
    with pytest.raises(AttributeError, match="frobnicate"):
        _ = epicast.frobnicate
    assert set(epicast.__all__) <= set(dir(epicast))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path: Path) -> None:
    with proxy_in_a_thread() as proxy:
        done = subprocess.run(
            [sys.executable, str(path), proxy.address],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = re.search(r'"""(.*?)"""', path.read_text(encoding="utf-8"), re.DOTALL)
    assert expected is not None
    last_line = expected.group(1).strip().splitlines()[-1].removeprefix("Ends with: ")
    assert done.stdout.splitlines()[-1] == last_line

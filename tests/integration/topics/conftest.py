from tests.integration.runtime.conftest import run

__all__ = ["run"]

"""All message types there are: whatever is registered by importing the product."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import epicast.protocols
import epicast.runtime
from epicast.wire import registered

PRIVATE_IDS = 65_280
"""From here on: types of tests."""

for _package in (epicast.protocols, epicast.runtime):
    for _module in pkgutil.walk_packages(_package.__path__, _package.__name__ + "."):
        import_module(_module.name)

RELEASED = [kind for number, kind in sorted(registered().items()) if number < PRIVATE_IDS]

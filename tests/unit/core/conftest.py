"""No deadline per example: the machine may be busy, and time is not what these tests are about."""

from hypothesis import settings

settings.register_profile("core", deadline=None)
settings.load_profile("core")

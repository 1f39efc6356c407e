"""For all tests.

Property tests draw the same examples every time, so that a test run says something about the code
and not about the day; set HYPOTHESIS_PROFILE=explore to look for new ones. No deadlines: machines
are shared, and slowness is the benchmarks' business.
"""

import os
import signal

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# A shell that runs tests in the background has Ctrl-C ignored, and so would everything they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

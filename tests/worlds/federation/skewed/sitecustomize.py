"""On the path of a node's process: its wall clock is off by so many seconds.

The node itself knows nothing of this; Python imports this module when it starts.
"""

import os
import time

_skew_ns = int(float(os.environ.get("TEST_CLOCK_SKEW_SECONDS", "0")) * 1e9)
_true_ns = time.time_ns
_true = time.time

time.time_ns = lambda: _true_ns() + _skew_ns
time.time = lambda: _true() + _skew_ns / 1e9

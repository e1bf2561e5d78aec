"""On the path of a node's process: shifts its wall clock by a number of seconds.

The node itself does not know; Python imports this module at start.
"""

import os
import time

_skew_ns = int(float(os.environ.get("TEST_CLOCK_SKEW_SECONDS", "0")) * 1e9)
_true_ns = time.time_ns
_true = time.time

time.time_ns = lambda: _true_ns() + _skew_ns
time.time = lambda: _true() + _skew_ns / 1e9

"""The threads of a process: those of the array libraries, which read their limit before numpy is
loaded, and that there are no more."""

THREADS_OF_LIBRARIES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Set to 1 unless the user sets them: on arrays as small as a recall's, a second thread spins more
than it computes."""
NO_THREAD = "can't start new thread"
"""Python's words if a process gets no further thread; the error is only a RuntimeError."""

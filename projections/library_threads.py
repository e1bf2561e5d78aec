"""The thread limit of the array libraries; processes read it before they load numpy."""

THREADS_OF_LIBRARIES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Set to 1 unless the user sets them: on arrays as small as a recall's, a second thread spins more
than it computes."""

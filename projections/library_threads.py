"""How many threads the array libraries may use; read by processes before they load numpy."""

THREADS_OF_LIBRARIES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Set to 1 unless the user says otherwise: a second thread spins more than it computes on arrays
as small as a recall's."""

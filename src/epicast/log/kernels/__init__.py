"""The loops over events, compiled by numba. Import only where they are used: numba is heavy."""

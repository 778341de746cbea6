"""Hardware counters through Nsight Compute: running it, reading its CSV, laying counters beside predictions."""

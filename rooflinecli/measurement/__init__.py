"""Times and counters of real kernels, beside their predictions."""

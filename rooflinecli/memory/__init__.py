"""What fits on chip, and what the L2 keeps away from HBM."""

"""Routes about keys, capabilities, gardens, trust and names."""

"""Routes about keys, capabilities, gardens and trust."""

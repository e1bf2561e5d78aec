"""Rights: capabilities, manifests, gardens, trust, and who may state instructions. Pure rules."""

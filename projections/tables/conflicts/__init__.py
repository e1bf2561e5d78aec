"""Values that disagree: claims, conflicts, denials and resolutions."""

"""Values that disagree: claims, conflicts, denials, and what settled them."""

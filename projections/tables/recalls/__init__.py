"""Records of recalls: how often facts were returned, their ratings, receipts."""

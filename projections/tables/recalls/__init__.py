"""What recalls leave behind: how often a fact was returned, how it was rated, receipts."""

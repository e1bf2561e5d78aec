"""Commands that write or change the memory."""

"""Commands that write or change what is remembered."""

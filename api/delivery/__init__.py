"""Telling subscribers of changes: webhooks, and what they may be sent to."""

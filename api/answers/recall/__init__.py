"""Answers of recall, and receipts."""

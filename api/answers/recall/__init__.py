"""What recall answers, and its receipts."""

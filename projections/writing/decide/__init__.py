"""Pure decisions: from a command to drafts of events, or a refusal."""

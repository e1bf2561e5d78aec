"""From a command to drafts of events, or a refusal: functions that decide and do not write."""

"""Storage engines behind one ``EventLog`` protocol, and the writing transaction they share."""

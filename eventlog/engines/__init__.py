"""Storage engines behind one ``EventLog`` protocol, and their shared writing transaction."""

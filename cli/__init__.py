"""The command line: `nodius`, one file a command group."""

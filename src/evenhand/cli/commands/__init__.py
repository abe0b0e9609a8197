"""One module for each command: what it takes, what it calls, what it prints."""

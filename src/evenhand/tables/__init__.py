"""Tables in and out: files of several formats, and tables bigger than memory."""

"""What can be wrong with a table."""


class TableError(ValueError):
    """The table, or a column of it, is not what is needed."""


class TableOptionError(ValueError):
    """A format or a delimiter that there is not."""

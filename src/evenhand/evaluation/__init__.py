"""What a model does on rows whose groups are known, and along a path of tolerances."""

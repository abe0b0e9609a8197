"""What a fitted step comes to on new data: the estimate, the search for the tolerance, and the proof."""

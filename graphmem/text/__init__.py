"""Text: words, tokens, fences, classes of errors, types of tasks. Nothing here knows the graph."""

"""Episodes: how they lie in the graph, and learning them."""

"""Graph: what every part works with: the bound graph, checks of arguments, look-ups, who reads what."""

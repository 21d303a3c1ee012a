"""What every part works with: the bound graph, checks of arguments, look-ups, access."""

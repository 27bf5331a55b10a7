"""Choice of settings and models by rows that are held out whole."""

"""Routes: which view answers which path, one module a theme."""

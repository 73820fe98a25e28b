"""Commands that this guest alone has."""

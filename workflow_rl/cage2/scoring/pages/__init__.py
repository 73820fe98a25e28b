"""The templates of the pages about CAGE-2."""

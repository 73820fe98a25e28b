"""Teams as folders for CAGE Challenge 4, which need nothing of this package."""

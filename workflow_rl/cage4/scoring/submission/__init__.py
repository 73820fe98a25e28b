"""Teams as folders to hand in to CAGE Challenge 4. A folder does not need this package."""

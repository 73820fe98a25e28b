"""What environments are, where they are found by name, and Gymnasium's."""

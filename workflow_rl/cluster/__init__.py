"""Workers on a Ray cluster. Nothing here is imported before --cluster is given."""

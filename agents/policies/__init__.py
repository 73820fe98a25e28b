"""What a worker imports: networks as arrays, distributions, policy files."""

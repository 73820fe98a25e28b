"""What runs came to and how fast they were: plots, timelines, benchmarks, comparisons."""

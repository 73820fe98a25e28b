"""Tables, charts, timelines, reports and benchmarks."""

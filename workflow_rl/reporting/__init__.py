"""Tables, charts, learning curves, timelines and reports."""

"""What `memlite bench` measures: extraction and retrieval, on data with known answers."""

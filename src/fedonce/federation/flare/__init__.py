"""All that knows NVIDIA FLARE: kits, processes, jobs, what runs in them, and the engine of the host."""

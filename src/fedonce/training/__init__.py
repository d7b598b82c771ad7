"""The only batch loop, networks, gradients in closed form, randomness, and trainings kept on disk."""

"""Parties as machines, on NVIDIA FLARE: kits, the guest's policy, run files, what the host asks and what guests answer."""

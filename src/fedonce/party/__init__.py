"""Guest and Host: their columns, their model, their random generator."""

from fedonce.party.guest import Guest, Tuned, check_noise
from fedonce.party.host import Host, arrange, check_labels

__all__ = ["Guest", "Host", "Tuned", "arrange", "check_labels", "check_noise"]

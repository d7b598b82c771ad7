"""Guest and Host: their columns, their model, their random generator."""

from fedonce.party.guest import Guest, check_noise
from fedonce.party.host import Host, arrange, check_labels
from fedonce.party.tuned import Tuned

__all__ = ["Guest", "Host", "Tuned", "arrange", "check_labels", "check_noise"]

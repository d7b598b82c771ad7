"""Guest and Host: their columns, their model, their random generator."""

from fedonce.party.arranging import arrange
from fedonce.party.checks import check_noise
from fedonce.party.fine_tuning import FineTuning
from fedonce.party.guest import Guest
from fedonce.party.guest_state import GuestSettings, GuestState
from fedonce.party.host import Host
from fedonce.party.host_state import HostSettings, HostState
from fedonce.party.labels import check_labels

__all__ = [
    "FineTuning",
    "Guest",
    "GuestSettings",
    "GuestState",
    "Host",
    "HostSettings",
    "HostState",
    "arrange",
    "check_labels",
    "check_noise",
]

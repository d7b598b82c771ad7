"""How a party turns its own columns into numbers, alone, by what it saw in its own training rows.

With a privacy budget (`Public`), all of this comes from bounds and categories that the user gives, and no row is looked at.
Else numbers are standardised, missing ones replaced by the mean and marked. A category with few values is one column a value;
one with many is hashed into a few columns, so that a million customer ids stay a few columns wide, or becomes codes where a
learner takes such (`Coding`). A date is the day, standardised, and where in the year, the week and the day it lies. Pixels are
centred and scaled together. Every row is prepared independently of the others in the call. `to_json` says all of it, so that
another process prepares rows to the same bits.
"""

from fedonce.data.preparation.categories import HASHED_WIDTH, Coding
from fedonce.data.preparation.preparing import SKETCH_WIDTH, Preparation
from fedonce.data.preparation.public import Bounds, Public, as_bounds

__all__ = ["HASHED_WIDTH", "SKETCH_WIDTH", "Bounds", "Coding", "Preparation", "Public", "as_bounds"]

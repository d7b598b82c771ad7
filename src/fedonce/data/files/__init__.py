"""Tables in files: CSV, TSV, Parquet and Arrow, read in chunks by pyarrow and written whole or not at all.

Beyond the arrays that are returned, little more than one chunk is in memory. The columns of a CSV come as text and are parsed
here: a column is numbers, booleans or dates where all of its values are, wherever the chunks end, and categories otherwise.
"""

from fedonce.data.files.reading import read_table
from fedonce.data.files.sources import check_ending
from fedonce.data.files.writing import write_table

__all__ = ["check_ending", "read_table", "write_table"]

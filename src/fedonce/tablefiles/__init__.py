"""Tables in files: CSV, TSV, Parquet and Arrow, read in chunks by pyarrow and written whole or not at all.

Beyond the arrays that are returned, little more than one chunk is in memory. The columns of a CSV come as text and are parsed
here: a column is numbers, booleans or dates where all of its values are, wherever the chunks end, and categories otherwise.
"""

from fedonce.tablefiles.reading import read_table
from fedonce.tablefiles.sources import check_ending
from fedonce.tablefiles.writing import write_table

__all__ = ["check_ending", "read_table", "write_table"]

"""Is the simulated engine right? Its predictions beside what others measured, row by row.

`published` reads the tables, `nim` predicts the measured load test in detail, `tables` the others,
`page` writes results/validation/. Nothing here is fitted to what it is compared with, except where
a row says so.
"""

from bench.validate.page import write_page
from bench.validate.rows import Row, misses, rows

__all__ = ["Row", "misses", "rows", "write_page"]

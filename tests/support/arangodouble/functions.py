"""All AQL functions: the modules that fill the table, and what is called by name."""

from tests.support.arangodouble import (
    functions_of_dates,
    functions_of_lists,
    functions_of_numbers,
    functions_of_text,
)
from tests.support.arangodouble.function_table import FUNCTIONS, lookup

MODULES = (functions_of_dates, functions_of_lists, functions_of_numbers, functions_of_text)
like = functions_of_text.like
regex_test = functions_of_text.regex_test

__all__ = ["FUNCTIONS", "like", "lookup", "regex_test"]

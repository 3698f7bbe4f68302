"""How many pulls any algorithm needs: a lower bound, and the allocation that would reach it."""

from oddarms.limit._bound import Limit, lower_bound
from oddarms.limit._first_order import first_order_program

__all__ = ["Limit", "first_order_program", "lower_bound"]

"""The experiments of the ADE paper, all of them, and of ROAI: settings, claims, reports."""

from oddarms.paper._claims import Claim
from oddarms.paper._reproduce import Reproduction, reproduce
from oddarms.paper._roai import RoaiReproduction, RoaiRow, reproduce_roai

__all__ = [
    "Claim",
    "Reproduction",
    "RoaiReproduction",
    "RoaiRow",
    "reproduce",
    "reproduce_roai",
]

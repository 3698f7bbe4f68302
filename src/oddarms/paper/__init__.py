"""The experiments of the ADE paper, all of them: settings, pictures, claims, report."""

from oddarms.paper._claims import Claim
from oddarms.paper._reproduce import Reproduction, reproduce

__all__ = ["Claim", "Reproduction", "reproduce"]

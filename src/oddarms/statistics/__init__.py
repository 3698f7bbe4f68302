"""The bounds behind every decision: pure mathematics, no input or output, no randomness."""

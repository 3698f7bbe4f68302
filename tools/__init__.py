"""What makes and checks the package and its pages; no part of it."""

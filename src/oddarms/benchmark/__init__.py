"""The benchmark: samples, errors, speed and growth, all measured in one run.

``python -m oddarms.benchmark`` prints it as Markdown and writes it as JSON.
"""

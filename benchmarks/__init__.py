"""The benchmark: samples, errors, speed and growth, all measured in one run.

``python -m benchmarks`` prints it as Markdown and writes it as JSON.
"""

"""Knowing how good a system is: suites of generated samples, scoring, logs of evaluations, comparisons."""

"""Agreement: several independent runs of one task, compared value by value.

See docs/evidence.md.

rlm.Predict("log, question -> answer: int", agree=3)
"""

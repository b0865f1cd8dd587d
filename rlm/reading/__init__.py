"""Ways of reading: the modes of a run, how `auto` chooses one, and the map over items.

A mode is who writes the first cell of a run. In `repl` the main model does. In `direct` and `map` it is written here:
it asks for the outputs with the inputs in the prompt, or asks about each item and reduces the answers by code. The rest
is the same in all modes: the kernel runs the cell, SUBMIT checks the outputs, the budget is counted, the trace is
written, and where the cell does not end the run, the main model goes on from what it printed. See docs/reading.md.
"""

from .choice import MODES, Mode, ModeChoice
from .items import Estimate, Items, MapTooLarge
from .plan import MapPlan

__all__ = ["MODES", "Estimate", "Items", "MapPlan", "MapTooLarge", "Mode", "ModeChoice"]

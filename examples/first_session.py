"""One session from open to close: a long text goes in, code nobody has read works on it, an answer comes out.

The code below stands for what a model would write; the host function stands for a smaller model. Neither is one: this
example needs no key and no network.
"""

import random

import sandbox

# A log of 200,000 lines. It becomes a variable of the session; it is never pasted into anything.
LEVELS = ["INFO", "WARN", "ERROR"]
dice = random.Random(7)
log = "\n".join(
    f"2026-11-{dice.randint(1, 30):02} {dice.choice(LEVELS)} request {n} took {dice.randint(1, 900)} ms"
    for n in range(200_000)
)


def ask(question: str) -> str:
    """Ask a smaller model. (Here: a function that knows one answer.)"""
    return "slow" if "took 9" in question or "took 8" in question else "fine"


CELLS = [
    # What a model does first: look at what it has.
    "print(len(log), 'characters')\nprint(log[:72])",
    # Ordinary Python, with pandas.
    "import pandas as pd\n"
    "rows = [line.split() for line in log.splitlines()]\n"
    "table = pd.DataFrame({'level': [r[1] for r in rows], 'ms': [int(r[5]) for r in rows]})\n"
    "table.groupby('level').ms.agg(['count', 'mean']).round(1)",
    # Calls to the host, from inside the code.
    "errors = [line for line in log.splitlines() if 'ERROR' in line][:20]\nsum(ask(line) == 'slow' for line in errors)",
    # What goes wrong is a result, in the cell's own lines.
    "table.groupby('lvel')",
    # What must not happen does not happen.
    "open('/etc/passwd').read()",
    "import socket",
    "ask = lambda question: 'whatever I like'",
    # The state is still there.
    "int(table.ms.max())",
]

with sandbox.Session(inputs={"log": log}, functions={"ask": ask}) as session:
    for number, code in enumerate(CELLS, start=1):
        result = session.run(code)
        print(f"--- cell {number}, {result.seconds * 1000:.1f} ms, {result.calls} host calls")
        print("\n".join(f">>> {line}" for line in code.splitlines()))
        if result.text:
            print(result.text.rstrip())
        if result.value_repr is not None:
            print(result.value_repr)
        if result.error is not None:
            print(result.error.traceback.rstrip())
        print()
    print("--- variables, as the host sees them, without having run any of their code")
    for variable in session.variables().values():
        print(f"{variable.name:8} {variable.type:20} {variable.preview[:80]}")

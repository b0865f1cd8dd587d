"""Many tasks: read one by one, run by an engine, remembered in a ledger, so that running again does what is missing.

    ledger = Ledger(ledger_path(home(), output))
    batch = Batch(Source([Path("task.yaml")], Path("rows.csv")), ledger)
    batch.prepare()
    for outcome in batch.run(LocalEngine(), Results(output, ledger)):
        ...

`docs/scale.md` says how `rlm batch` is used and what it holds.
"""

"""Sent as source to a kernel that is not ours: puts the modules of the agent in place and starts it."""


def boot(sources):  # type: ignore[no-untyped-def]  # noqa: D103
    import sys
    import types

    for package in ("sandbox", "sandbox.kernel"):
        if package not in sys.modules:
            module = types.ModuleType(package)
            module.__path__ = []
            sys.modules[package] = module
    for name, source in sources.items():
        full = "sandbox.kernel." + name
        module = types.ModuleType(full)
        module.__package__ = "sandbox.kernel"
        sys.modules[full] = module
        setattr(sys.modules["sandbox.kernel"], name, module)
        exec(compile(source, "<" + full + ">", "exec"), module.__dict__)
    sys.modules["sandbox.kernel.agent"].start()

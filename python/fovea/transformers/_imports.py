"""Acts when a module has been imported, whoever imports it and whenever: fovea may be imported before transformers."""
import importlib.abc
import importlib.util
import sys

import torch


class _After(importlib.abc.MetaPathFinder):
    def __init__(self, name, act):
        self.name, self.act = name, act

    def find_spec(self, name, path=None, target=None):
        if name != self.name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self.act()

        spec.loader.exec_module = exec_module
        return spec


def when_imported(name, act):
    """Calls act() at once if the module `name` has been imported, otherwise right after it is."""
    if name in sys.modules:
        act()
    else:
        sys.meta_path.insert(0, _After(name, act))


def constant_result(function):
    """torch.compiler.assume_constant_result, which imports the compiler: that would double the time of `import fovea`."""
    when_imported("torch._dynamo", lambda: torch.compiler.assume_constant_result(function))
    return function

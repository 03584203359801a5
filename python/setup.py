"""Notes in the installed package which clone it came from, so that it finds the operator library built there."""
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithClone(build_py):
    def run(self):
        super().run()
        if not self.editable_mode:  # an editable package lies in its clone
            clone = Path(__file__).resolve().parent.parent
            (Path(self.build_lib) / "fovea" / "_clone.py").write_text(f"CLONE = {str(clone)!r}\n")


setup(cmdclass={"build_py": BuildWithClone})

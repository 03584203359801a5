"""Lets the programs of this folder find the package fovea of their clone: imported before it."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

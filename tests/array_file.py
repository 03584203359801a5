"""Arrays in NumPy's file format, without NumPy."""
import struct


def npy(shape, values, kind="|u1", order=False):
    """The bytes of a file of version 1.0; `values` are the array's bytes, `order` says whether they are in Fortran's order."""
    header = f"{{'descr': '{kind}', 'fortran_order': {order}, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header.encode() + values

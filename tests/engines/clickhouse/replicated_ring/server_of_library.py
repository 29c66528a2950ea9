#!/usr/bin/env python3
"""A whole ClickHouse server out of the library of the Python package `chdb` 3.1.2, which is of version 24.8.4.1.

    server_of_library.py LIBRARY CONFIG.xml

Runs until it is killed. The library exports the entry point of clickhouse-server, but has no Keeper: ZooKeeper takes its place. It is made for
Python 3.11. Symbols are bound when they are used, so that any version of Python can load it: the server uses none of Python's.
"""
import ctypes
import os
import sys

library, config = sys.argv[1:3]
libc = ctypes.CDLL(None)
libc.dlopen.restype = ctypes.c_void_p
libc.dlsym.restype = ctypes.c_void_p
libc.dlsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
libc.dlerror.restype = ctypes.c_char_p
# ctypes itself would bind all symbols at once.
handle = libc.dlopen(library.encode(), os.RTLD_LAZY)
# int mainEntryClickHouseServer(int, char **)
address = libc.dlsym(handle, b"_Z25mainEntryClickHouseServeriPPc") if handle else None
if address is None:
    sys.exit(libc.dlerror().decode())
main = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p))(address)
arguments = ["clickhouse-server", "--config-file", config]
argv = (ctypes.c_char_p * (len(arguments) + 1))(*[a.encode() for a in arguments], None)
sys.exit(main(len(arguments), argv))

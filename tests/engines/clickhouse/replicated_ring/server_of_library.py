#!/usr/bin/env python3
"""A whole ClickHouse server out of the library of the Python package `chdb` 3.1.2, which is of version 24.8.4.1.

    server_of_library.py LIBRARY CONFIG.xml

Runs until it is killed. The library exports the entry point of clickhouse-server, but has no Keeper: ZooKeeper takes its place.
"""
import ctypes
import sys

library, config = sys.argv[1:3]
arguments = ["clickhouse-server", "--config-file", config]
argv = (ctypes.c_char_p * (len(arguments) + 1))(*[a.encode() for a in arguments], None)
# int mainEntryClickHouseServer(int, char **)
sys.exit(getattr(ctypes.CDLL(library), "_Z25mainEntryClickHouseServeriPPc")(len(arguments), argv))

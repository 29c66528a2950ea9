#!/usr/bin/env python3
"""One ClickHouse node, HTTP and native TCP, out of the shared library of the npm package `chdb`.

    node.py LIBCHDB CONFIG.xml DATA_DIR HTTP_PORT TCP_PORT ADDRESS

An empty TCP_PORT: it listens on HTTP only. Runs until it is killed. The library exports the command line of clickhouse-local, which can be told to listen; the last query only
keeps the process up. `remote_servers` and `macros` of CONFIG.xml count.
"""
import ctypes
import sys

library, config, data, http_port, tcp_port, address = sys.argv[1:7]
keep_up = (
    "SELECT sum(sleepEachRow(3)) FROM numbers(10000000) "
    "SETTINGS max_block_size = 1, function_sleep_max_microseconds_per_block = 0"
)
arguments = [
    "clickhouse", "-C", config, "--path", data, "--listen_host", address,
    "--http_port", http_port, *(["--tcp_port", tcp_port] if tcp_port else []),
    "--query", f"SYSTEM START LISTEN HTTP; {'SYSTEM START LISTEN TCP; ' if tcp_port else ''}{keep_up}",
]
chdb = ctypes.CDLL(library)
argv = (ctypes.c_char_p * (len(arguments) + 1))(*[a.encode() for a in arguments], None)
chdb.chdb_query_cmdline.restype = ctypes.c_void_p
chdb.chdb_query_cmdline.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
chdb.chdb_result_error.restype = ctypes.c_char_p
chdb.chdb_result_error.argtypes = [ctypes.c_void_p]
result = chdb.chdb_query_cmdline(len(arguments), argv)
print("ended:", chdb.chdb_result_error(result), file=sys.stderr)

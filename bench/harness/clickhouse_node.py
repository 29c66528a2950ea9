"""One ClickHouse node with HTTP, out of the shared library of the npm package `chdb`.

    clickhouse_node.py LIBRARY CONFIG.xml DATA_DIRECTORY HTTP_PORT

Runs until it is killed. The library exports the command line of clickhouse-local, which can listen; the last query only keeps the
process running.
"""
import ctypes
import sys

library, config, data, http_port = sys.argv[1:5]
keep_running = (
    "SELECT sum(sleepEachRow(3)) FROM numbers(10000000) "
    "SETTINGS max_block_size = 1, function_sleep_max_microseconds_per_block = 0"
)
arguments = [
    "clickhouse", "-C", config, "--path", data, "--listen_host", "127.0.0.1", "--http_port", http_port,
    "--query", f"SYSTEM START LISTEN HTTP; {keep_running}",
]
chdb = ctypes.CDLL(library)
argv = (ctypes.c_char_p * (len(arguments) + 1))(*[argument.encode() for argument in arguments], None)
chdb.chdb_query_cmdline.restype = ctypes.c_void_p
chdb.chdb_query_cmdline.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
chdb.chdb_result_error.restype = ctypes.c_char_p
chdb.chdb_result_error.argtypes = [ctypes.c_void_p]
result = chdb.chdb_query_cmdline(len(arguments), argv)
print("ended:", chdb.chdb_result_error(result), file=sys.stderr)

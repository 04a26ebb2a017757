"""Relays between a client and a stdio server, and records every line that the server receives.

Usage: tap.py RECORD COMMAND [ARGUMENT]…
"""

import subprocess
import sys


def main() -> int:
    record_path, *command = sys.argv[1:]
    server = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert server.stdin
    with open(record_path, "ab", buffering=0) as record:
        for line in sys.stdin.buffer:
            record.write(line)
            server.stdin.write(line)
            server.stdin.flush()
    server.stdin.close()
    return server.wait()


if __name__ == "__main__":
    sys.exit(main())

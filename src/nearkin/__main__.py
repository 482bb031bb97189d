"""The command line: ``nearkin``, or ``python -m nearkin``."""

import os
import signal

__all__ = ["main"]


def main() -> None:
    """Run a command; an interrupt while its modules load ends the process with one line too."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from nearkin.cli import main as program

    program()


def _leave(*_: object) -> None:
    os.write(2, b"\nnearkin: interrupted.\n")
    os._exit(130)


if __name__ == "__main__":
    main()

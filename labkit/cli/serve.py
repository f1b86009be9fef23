"""`labkit serve`: the mock service over HTTP on this machine, and the switch for one that runs."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from contextlib import suppress
from typing import Any

from labkit.errors import ServiceError

HELP = "serve the mock dependency over HTTP on this machine, or switch the fault of one that runs (--set)"

DEFAULT_PORT = 8370
DEFAULT_STOP_AFTER = 3600.0
SWITCH_LIMIT = 5.0
MAX_ANSWER_BYTES = 65_536


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `labkit serve`."""
    from labkit.services.faults.plan import FaultKind

    names = ", ".join(kind.value for kind in FaultKind)
    parser.description = (
        "Serves parts_availability on http://127.0.0.1, with a page on which to switch how it fails. "
        "It stops on Ctrl-C, and by itself when its time is up."
    )
    parser.epilog = (
        f"Faults: {names}. Exit status: 0 when it was stopped (by Ctrl-C and SIGTERM too) or switched, "
        "2 when that could not be done."
    )
    parser.add_argument(
        "--port",
        type=int,
        default=DEFAULT_PORT,
        metavar="N",
        help="port to listen on, or of the service to switch; 0 takes a free one (default: %(default)s)",
    )
    parser.add_argument("--fault", metavar="NAME", help="how it behaves at first (default: healthy)")
    parser.add_argument(
        "--stop-after",
        type=float,
        metavar="SECONDS",
        help=f"stop by itself after so many seconds (default: {DEFAULT_STOP_AFTER:g})",
    )
    parser.add_argument(
        "--set", metavar="FAULT", dest="switch", help="switch the service that runs on the port, and end"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until stopped, or switch one that runs. See `labkit serve --help`.

    Raises:
        ServiceError: the options do not go together, the fault is unknown, or no service answers on the port.
    """
    from labkit.services.faults.plan import parse_kind

    if args.switch is not None:
        if args.fault is not None or args.stop_after is not None:
            raise ServiceError("--set switches a service that runs; --fault and --stop-after belong to starting one")
        return _switch(args.port, parse_kind(args.switch).value)
    fault = parse_kind("healthy" if args.fault is None else args.fault)
    stop_after = DEFAULT_STOP_AFTER if args.stop_after is None else args.stop_after
    return asyncio.run(_serve(args.port, fault.value, stop_after))


async def _serve(port: int, fault: str, stop_after: float) -> int:
    from labkit.services.http.server import HttpService

    async with HttpService(fault, port, stop_after=stop_after) as server:
        asked: list[str] = []
        clock = server.clock

        def stop(name: str) -> None:
            if not asked:
                asked.append(name)
                clock.start(server.stop())

        loop = asyncio.get_running_loop()
        for name in ("SIGINT", "SIGTERM"):
            # Where an event loop takes no signals (Windows), Ctrl-C arrives as KeyboardInterrupt.
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(getattr(signal, name), stop, name)
        where = "" if server.port == DEFAULT_PORT else f" --port {server.port}"
        print(
            f"parts_availability listens on {server.url} and is {fault}.\n"
            f"Ask it:     {server.url}/parts/HX-2040\n"
            f"Switch it:  open {server.url} in a browser, or in another shell: labkit serve --set hang{where}\n"
            f"Stop it:    Ctrl-C; by itself it stops after {stop_after:g} s.",
            flush=True,
        )
        await server.ended()
        if asked:
            print("\nStopped." if asked[0] == "SIGINT" else "Stopped.", flush=True)
        else:
            print(f"Stopped by itself after {stop_after:g} s (--stop-after).", flush=True)
    return 0


def _switch(port: int, fault: str) -> int:
    if not 1 <= port <= 65_535:
        raise ServiceError(f"the port is {port}; --set needs the number that 'labkit serve' printed, from 1 to 65535")
    there = f"http://127.0.0.1:{port}"
    try:
        status, answer = _put(port, {"fault": fault})
    except ConnectionRefusedError as error:
        raise ServiceError(
            f"nothing listens on {there}; start one with 'labkit serve --port {port}', or name its port with --port"
        ) from error
    except TimeoutError as error:
        raise ServiceError(f"{there} did not answer within {SWITCH_LIMIT:g} s; is it a labkit service?") from error
    except OSError as error:
        raise ServiceError(f"{there} could not be switched: {error}") from error
    except ValueError as error:
        raise ServiceError(
            f"what listens on {there} is not a labkit service; name the right one with --port"
        ) from error
    if status != 200 or "fault" not in answer:
        raise ServiceError(f"what listens on {there} is not a labkit service; name the right one with --port")
    print(f"{there} is now: {fault}", flush=True)
    return 0


def _put(port: int, data: dict[str, str]) -> tuple[int, dict[str, Any]]:
    """PUT /fault, with what every Python has. ValueError where the answer is not one of a labkit service."""
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection("127.0.0.1", port, timeout=SWITCH_LIMIT)
    try:
        connection.request("PUT", "/fault", json.dumps(data), {"content-type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read(MAX_ANSWER_BYTES))
    except ConnectionRefusedError:
        raise
    except (HTTPException, RecursionError, ConnectionError) as error:
        raise ValueError("not HTTP, or not JSON") from error
    finally:
        connection.close()
    if not isinstance(answer, dict):
        raise ValueError("not an object")
    return response.status, answer

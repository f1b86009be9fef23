"""`labkit scenarios`: the scenarios that come with labkit, a line each.

`--json` prints one object: `schema` ("labkit.scenarios/1") and `scenarios`, a list of `name`, `title`, `summary`,
`semantics` and `variants`, each of these with `name` and `title`.
"""

from __future__ import annotations

import argparse

HELP = "list the scenarios that come with labkit, to be run by their names"

SCHEMA = "labkit.scenarios/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("--variants", action="store_true", help="list the variants of each as well")
    parser.add_argument("--json", action="store_true", help="print the list as JSON, variants included")


def run(args: argparse.Namespace) -> int:
    """List them."""
    from labkit.cli.text import put
    from labkit.scenario import load_scenario, scenario_names

    scenarios = [load_scenario(name) for name in scenario_names()]
    if args.json:
        import json

        listed = [
            {
                "name": one.name,
                "title": one.title,
                "summary": one.summary,
                "semantics": one.semantics,
                "variants": [{"name": variant.name, "title": variant.title} for variant in one.variants.values()],
            }
            for one in scenarios
        ]
        put(json.dumps({"schema": SCHEMA, "scenarios": listed}, indent=2))
        return 0
    width = max((len(one.name) for one in scenarios), default=0)
    for one in scenarios:
        put(f"{one.name:<{width}}  {one.summary}".rstrip())
        if args.variants:
            below = max((len(name) for name in one.variants), default=0)
            for name, variant in one.variants.items():
                put(f"  :{name:<{below}}  {variant.title}".rstrip())
    if not args.variants and scenarios:
        put(
            f"\n{len(scenarios)} scenarios; `labkit run NAME` runs one, --variants lists what may follow it as :VARIANT"
        )
    return 0

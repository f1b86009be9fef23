"""What labkit costs, measured beside its peers. `make bench` runs it; `python benchmarks/run.py --help` says how."""

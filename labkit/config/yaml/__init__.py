"""From a YAML file to a configuration, or to every fault in it."""

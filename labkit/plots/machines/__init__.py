"""Pictures of machines and stacks: states, layers, the boundary, several machines step by step."""

"""Shapes and style, and the writers that turn a picture into SVG or PNG."""

"""What all explorers share: the model, the controls, the page."""

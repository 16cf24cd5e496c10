"""Training text: a public-domain corpus from packages, and what a model says when asked."""

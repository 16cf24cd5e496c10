"""Training: small targets from text, drafts and heads from a target."""

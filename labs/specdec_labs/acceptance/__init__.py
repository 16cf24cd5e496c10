"""Acceptance of every drafter, measured on texts the target wrote once."""

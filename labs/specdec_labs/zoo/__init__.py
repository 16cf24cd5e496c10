"""A zoo of broken samplers: what the certificate catches, how often, and what it cannot see."""

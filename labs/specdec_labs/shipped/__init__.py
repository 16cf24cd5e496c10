"""Certificates of everything that ships: each drafter under each rule that takes its drafts."""

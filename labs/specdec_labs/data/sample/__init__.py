"""A small corpus in the same format as the fetched one, committed so that tests need no network.

Made by `specdec_labs.data.make_sample`; sources and licences are in manifest.json.
"""

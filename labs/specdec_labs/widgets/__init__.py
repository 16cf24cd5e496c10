"""Views of traces: a pure view model each, a live view and a static twin. Import the submodule you need."""

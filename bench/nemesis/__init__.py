"""Real processes that are mistreated, and what they write down for `epicast_checker`."""

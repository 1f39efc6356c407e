"""The protocols of the papers, one package each, all pure: simulator and network run them alike."""

"""Universes: who subscribes to what, as columns of users and topics too long for one process."""

"""Epicast: reliable broadcast and publish-subscribe that can prove what it delivered."""
